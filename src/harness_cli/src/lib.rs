//! The command line tool `harness`.
//!
//! It holds no rules: it sends what is typed and shows what is answered.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod arguments;
mod following;
mod inquiries;
mod link;
mod readiness;
mod run_task;
mod words;

use eh_ros_edge::context::{self, ContextError};
use eh_ros_edge::{spin_until, GoalClientError, Shutdown, SpinError};
use rclrs::{CreateBasicExecutor, RclrsError};

pub use arguments::{Arguments, Became, Command};

use link::Link;
use run_task::Wanted;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Done.
    Succeeded,
    /// The task failed.
    Failed,
    /// The task was refused; nothing was started.
    Rejected,
    /// Somebody has to look at the robot.
    Unknown,
    /// Something that is needed is not running.
    NotReady,
    /// Refused, or an error.
    Error,
    /// Canceled, and standstill was measured.
    Canceled,
}

impl End {
    /// The exit status, as `--help` says.
    pub const fn code(self) -> u8 {
        match self {
            End::Succeeded => 0,
            End::Failed => 1,
            End::Rejected => 3,
            End::Unknown => 4,
            End::NotReady => 5,
            End::Error => 6,
            End::Canceled => 7,
        }
    }
}

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("not everything that is needed is running; missing:\n  {missing}\nstart the robot with launch/bringup.launch.xml or scripts/demo, or check --namespace and ROS_DOMAIN_ID")]
    NotReady { missing: String },
    #[error("{what} is not there; is {node} running in this --namespace and ROS_DOMAIN_ID?")]
    NotThere { what: String, node: &'static str },
    #[error("{what} did not answer in time; see the log of its node")]
    Silent { what: &'static str },
    #[error("refused ({code}): {message}")]
    Refused { code: String, message: String },
    #[error(transparent)]
    Client(#[from] GoalClientError),
    #[error("ROS refuses: {0}")]
    Ros(#[from] RclrsError),
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    Spin(#[from] SpinError),
    #[error("the operating system refuses: {0}")]
    System(#[from] std::io::Error),
}

impl Failure {
    fn end(&self) -> End {
        match self {
            Failure::NotReady { .. }
            | Failure::NotThere { .. }
            | Failure::Client(GoalClientError::ServerAbsent { .. }) => End::NotReady,
            Failure::Silent { .. }
            | Failure::Refused { .. }
            | Failure::Client(_)
            | Failure::Ros(_)
            | Failure::Context(_)
            | Failure::Spin(_)
            | Failure::System(_) => End::Error,
        }
    }
}

/// Carries out what the command line asks for.
pub fn run(arguments: &Arguments) -> End {
    match start(arguments) {
        Ok(end) => end,
        Err(failure) => {
            eprintln!("harness: {failure}");
            failure.end()
        }
    }
}

fn start(arguments: &Arguments) -> Result<End, Failure> {
    let name = format!("harness_cli_{}", std::process::id());
    let mut given = vec!["harness".to_owned(), "--ros-args".to_owned()];
    let namespace = arguments.namespace.trim_matches('/');
    if !namespace.is_empty() {
        given.extend(["-r".to_owned(), format!("__ns:=/{namespace}")]);
    }
    let context = context::from_arguments(given, &name)?;
    let mut executor = context.create_basic_executor();
    let node = executor.create_node(name.as_str())?;
    let link = Link::new(&node)?;
    let asked = Shutdown::on_signals()?;
    let done = Shutdown::new();
    let (tell, end) = std::sync::mpsc::channel();
    let (command, halt) = (arguments.command.clone(), done.clone());
    drop(executor.commands().run(async move {
        let end = carry_out(&link, command, &asked).await;
        // The receiver lives until the executor has ended.
        let _ = tell.send(end);
        halt.request();
    }));
    spin_until(&mut executor, &done)?;
    end.try_recv()
        .unwrap_or(Err(Failure::Silent { what: "the tool" }))
}

async fn carry_out(link: &Link, command: Command, asked: &Shutdown) -> Result<End, Failure> {
    match command {
        Command::Run {
            instruction,
            time_budget,
            max_steps,
            task_id,
            permission,
            dry_run,
            wait_for_ready,
            verbose,
        } => {
            let wanted = Wanted {
                instruction: &instruction,
                time_budget,
                max_steps,
                task_id: &task_id,
                permissions: &permission,
                dry_run,
                wait_for_ready,
                verbose,
            };
            run_task::run(link, wanted, asked).await
        }
        other => tokio::select! {
            end = inquiries::carry_out(link, other) => end,
            () = asked.requested() => Ok(End::Canceled),
        },
    }
}
