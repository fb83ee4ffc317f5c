//! The numbers and names of error codes and states stand twice: here, and as constants in the interface
//! files, where other languages read them. Neither may have one that the other lacks, or means otherwise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eh_contract::error_code::ErrorCode;
use eh_contract::run_event::RunEventKind;
use eh_contract::scene::{Kind, Source};
use eh_contract::state::{CommandState, ControlEnd, ExecutorState, StopStage, TaskOutcome};
use eh_contract::verdict::{Outcome, Truth};
use serde::Serialize;

/// Numbers by name.
type Constants = BTreeMap<String, u16>;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The constants of one type in an interface file.
fn constants(file: &str, kind: &str) -> Constants {
    let text = std::fs::read_to_string(top().join(file)).unwrap();
    let mut found = Constants::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap();
        let Some((left, number)) = line.split_once('=') else {
            continue;
        };
        let words: Vec<&str> = left.split_whitespace().collect();
        if let [of, name] = words[..] {
            if of == kind
                && name
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c))
            {
                let number = number.trim().parse().unwrap();
                assert_eq!(
                    found.insert(name.to_owned(), number),
                    None,
                    "{file}: {name} twice"
                );
            }
        }
    }
    found
}

/// The constants that begin with a prefix, without it.
fn with_prefix(file: &str, prefix: &str) -> Constants {
    constants(file, "uint8")
        .into_iter()
        .filter_map(|(name, number)| Some((name.strip_prefix(prefix)?.to_owned(), number)))
        .collect()
}

/// The values of an enum by the names that it is stored under.
fn values<T: Serialize>(all: impl IntoIterator<Item = (T, u8)>) -> Constants {
    all.into_iter()
        .map(
            |(value, number)| match serde_json::to_value(value).unwrap() {
                serde_json::Value::String(name) => (name.to_uppercase(), u16::from(number)),
                other => panic!("{other} is no name"),
            },
        )
        .collect()
}

/// Every value that a number stands for.
fn readable<T: Serialize>(from_wire: impl Fn(u8) -> Option<T>) -> Constants {
    values((0..=u8::MAX).filter_map(|number| Some((from_wire(number)?, number))))
}

/// The interface files of a folder.
fn files(folder: &str) -> Vec<String> {
    let mut found: Vec<String> = std::fs::read_dir(top().join(folder))
        .unwrap()
        .map(|e| format!("{folder}/{}", e.unwrap().file_name().to_str().unwrap()))
        .collect();
    found.sort();
    assert!(found.len() >= 3, "{found:?}");
    found
}

#[test]
fn every_constant_of_the_interfaces_is_an_error_code_of_the_same_name() {
    for file in [files("action"), files("srv")].concat() {
        let text = std::fs::read_to_string(top().join(&file)).unwrap();
        let has_code = text.lines().any(|l| l.starts_with("uint16 error_code"));
        let found = constants(&file, "uint16");
        assert_eq!(has_code, found.contains_key("NONE"), "{file}");
        for (name, number) in found {
            let code = ErrorCode::from_code(number);
            assert_eq!(
                code.map(ErrorCode::name),
                Some(name.as_str()),
                "{file}: {name} = {number}"
            );
        }
    }
}

#[test]
fn every_error_code_is_a_constant_of_an_interface() {
    let mut told = std::collections::BTreeSet::new();
    for file in [files("action"), files("srv")].concat() {
        told.extend(constants(&file, "uint16").into_iter().map(|(n, c)| (c, n)));
    }
    for code in ErrorCode::ALL {
        assert!(
            told.contains(&(code.code(), code.name().to_owned())),
            "no file in action/ or srv/ has {} = {}",
            code.name(),
            code.code()
        );
    }
}

#[test]
fn states_have_the_numbers_of_the_messages() {
    let status = "msg/SkillStatus.msg";
    assert_eq!(
        with_prefix(status, "STATE_"),
        readable(ExecutorState::from_wire)
    );
    assert_eq!(with_prefix(status, "END_"), readable(ControlEnd::from_wire));
    assert_eq!(with_prefix(status, "STOP_"), readable(StopStage::from_wire));
    let query = "srv/QueryCommand.srv";
    assert_eq!(
        with_prefix(query, "COMMAND_"),
        readable(CommandState::from_wire)
    );
    let task = "action/ExecuteTask.action";
    assert_eq!(
        with_prefix(task, "OUTCOME_"),
        readable(TaskOutcome::from_wire)
    );
    let event = "msg/RunEvent.msg";
    assert_eq!(
        with_prefix(event, "EVENT_"),
        readable(RunEventKind::from_wire)
    );
    let object = "msg/SceneObject.msg";
    assert_eq!(with_prefix(object, "KIND_"), readable(Kind::from_wire));
    assert_eq!(with_prefix(object, "SOURCE_"), readable(Source::from_wire));

    // Not filled is no verdict.
    let mut verdict = with_prefix("msg/Verdict.msg", "OUTCOME_");
    assert_eq!(verdict.remove("UNSPECIFIED"), Some(0));
    assert_eq!(verdict, readable(Outcome::from_wire));

    // Numbers that no constant has are read as unknown.
    let truth = [Truth::Unknown, Truth::True, Truth::False].map(|t| (t, t.to_wire()));
    assert_eq!(
        with_prefix("msg/PredicateResult.msg", "TRUTH_"),
        values(truth)
    );
    for (value, number) in truth {
        assert_eq!(Truth::from_wire(number), value);
    }
}

#[test]
fn what_is_read_is_what_is_written() {
    for number in 0..=u8::MAX {
        let both = |written: Option<u8>| assert!(written.is_none_or(|w| w == number), "{number}");
        both(ExecutorState::from_wire(number).map(ExecutorState::to_wire));
        both(ControlEnd::from_wire(number).map(ControlEnd::to_wire));
        both(StopStage::from_wire(number).map(StopStage::to_wire));
        both(CommandState::from_wire(number).map(CommandState::to_wire));
        both(TaskOutcome::from_wire(number).map(TaskOutcome::to_wire));
        both(RunEventKind::from_wire(number).map(RunEventKind::to_wire));
        both(Kind::from_wire(number).map(Kind::to_wire));
        both(Source::from_wire(number).map(Source::to_wire));
        both(Outcome::from_wire(number).map(Outcome::to_wire));
    }
}
