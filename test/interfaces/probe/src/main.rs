//! Speaks every interface of test_msgs, for a client that does not use these bindings:
//!
//! ```text
//! interface_probe tables   prints the layout of each message and the value of each constant as JSON
//! interface_probe serve    is a node with the topics, services and actions of `hub`
//! ```

mod hub;

use std::process::ExitCode;
use std::sync::Arc;

use eh_ros_edge::{spin_nodes_until, Shutdown};
use rclrs::{Context, CreateBasicExecutor};

use crate::hub::{Failure, Hub};

mod generated {
    include!(concat!(env!("INTERFACE_PROBE_GENERATED"), "/generated.rs"));
}

fn main() -> ExitCode {
    let ran = match std::env::args().nth(1).as_deref() {
        Some("tables") => print_tables(),
        Some("serve") => serve(),
        _ => Err("say 'tables' or 'serve'".into()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_tables() -> Result<(), Failure> {
    for (name, size, fields) in generated::LAYOUTS {
        let line = serde_json::json!({"type": name, "size": size, "fields": fields});
        println!("{line}");
    }
    for (name, constant, value) in generated::constants() {
        let line = serde_json::json!({"type": name, "constant": constant, "value": value});
        println!("{line}");
    }
    Ok(())
}

fn serve() -> Result<(), Failure> {
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let shutdown = Shutdown::on_signals()?;
    let node = executor.create_node("interface_probe")?;
    let mut hub = Hub::new(Arc::clone(&node));
    generated::offer(&mut hub)?;
    println!("ready");
    Ok(spin_nodes_until(&mut executor, &[node], &shutdown)?)
}
