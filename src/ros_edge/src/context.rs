//! The ROS context of a process with one node, with parameter files as every other client library reads
//! them.
//!
//! rclrs 0.8 takes from a parameter file only the sections named `/**` or exactly like the node's full
//! name; `protection_node:`, `/*/protection_node:` or `/**/protection_node:`, which rclcpp and rclpy take as
//! well, it passes over without a word. So each file is read here first, and what concerns the node is
//! handed on as `/**`.

use std::path::{Path, PathBuf};

use rclrs::{Context, InitOptions, RclrsError};
use serde_yaml_ng::{Mapping, Value};

/// The context could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// A parameter file can't be read.
    #[error("parameter file {path} can't be read: {reason}; correct the path or the file")]
    ParameterFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What concerns this node can't be handed on.
    #[error("{path} can't be written: {reason}; free some space or set TMPDIR")]
    Temporary {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// ROS refuses the arguments.
    #[error("ROS could not be initialised: {0}; check the arguments after --ros-args")]
    Ros(RclrsError),
}

/// Creates the context of a process whose only node is called `node_name` unless it is renamed, from the
/// command line and the environment.
///
/// # Errors
///
/// [`ContextError`] that names the file or the arguments.
pub fn from_env(node_name: &str) -> Result<Context, ContextError> {
    from_arguments(std::env::args().collect(), node_name)
}

/// As [`from_env`], from these arguments; the first one is the program.
///
/// # Errors
///
/// [`ContextError`] that names the file or the arguments.
pub fn from_arguments(arguments: Vec<String>, node_name: &str) -> Result<Context, ContextError> {
    let full_name = full_name(&arguments, node_name);
    let (mut arguments, parameters) = take_parameters(arguments, &full_name)?;
    if parameters.is_empty() {
        return Context::new(arguments, InitOptions::default()).map_err(ContextError::Ros);
    }
    let temporary = |path: &Path, reason: String| ContextError::Temporary {
        path: path.into(),
        reason,
    };
    let directory =
        tempfile::tempdir().map_err(|error| temporary(&std::env::temp_dir(), error.to_string()))?;
    let file = directory.path().join("parameters.yaml");
    let text = document(parameters).map_err(|reason| temporary(&file, reason))?;
    std::fs::write(&file, text).map_err(|error| temporary(&file, error.to_string()))?;
    arguments.extend([
        "--ros-args".into(),
        "--params-file".into(),
        file.to_string_lossy().into_owned(),
        "--".into(),
    ]);
    // The file is read while the context is made and not later.
    Context::new(arguments, InitOptions::default()).map_err(ContextError::Ros)
}

/// Takes parameter files and single parameters out of the arguments; what comes later wins.
///
/// Single ones have to come along: rcl keeps a value of each type when a later one has another type than
/// an earlier one, and rclrs then takes the wrong one.
fn take_parameters(
    arguments: Vec<String>,
    full_name: &str,
) -> Result<(Vec<String>, Mapping), ContextError> {
    let mut parameters = Mapping::new();
    let mut others = Vec::with_capacity(arguments.len());
    let mut for_ros = false;
    let mut given = arguments.into_iter().peekable();
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--ros-args" => for_ros = true,
            "--" => for_ros = false,
            _ => {}
        }
        let takes_value = for_ros
            && given.peek().is_some()
            && matches!(argument.as_str(), "--params-file" | "-p" | "--param");
        if !takes_value {
            others.push(argument);
            continue;
        }
        let value = given.next().unwrap_or_default();
        if argument == "--params-file" {
            read_file(Path::new(&value), full_name, &mut parameters)?;
        } else if !take_rule(&value, full_name, &mut parameters) {
            // ROS says what is wrong with it.
            others.extend([argument, value]);
        }
    }
    Ok((others, parameters))
}

/// Takes `name:=value` or `node:name:=value`. Returns false when it is neither.
fn take_rule(rule: &str, full_name: &str, parameters: &mut Mapping) -> bool {
    let Some((name, value)) = rule.split_once(":=") else {
        return false;
    };
    let (node, name) = name.rsplit_once(':').unwrap_or(("/**", name));
    let Ok(value) = serde_yaml_ng::from_str::<Value>(value) else {
        return false;
    };
    if name.is_empty() || node.is_empty() {
        return false;
    }
    if matches(node, full_name) {
        let value = if value.is_null() { "".into() } else { value };
        let nested = name.rsplit('.').fold(value, |inner, key| {
            Value::Mapping(Mapping::from_iter([(key.into(), inner)]))
        });
        if let Value::Mapping(nested) = nested {
            merge(&nested, parameters);
        }
    }
    true
}

fn read_file(file: &Path, full_name: &str, parameters: &mut Mapping) -> Result<(), ContextError> {
    let unreadable = |reason: String| ContextError::ParameterFile {
        path: file.into(),
        reason,
    };
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    take_sections(&text, full_name, parameters).map_err(unreadable)
}

/// Takes the parameters of a file that concern a node.
fn take_sections(text: &str, full_name: &str, parameters: &mut Mapping) -> Result<(), String> {
    let document: Value = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
    match document {
        Value::Null => Ok(()),
        Value::Mapping(sections) => collect(&sections, "", full_name, parameters),
        _ => Err("it has to begin with names of nodes".into()),
    }
}

/// A parameter file with one section `/**`.
fn document(parameters: Mapping) -> Result<String, String> {
    let section = Mapping::from_iter([("ros__parameters".into(), Value::Mapping(parameters))]);
    let whole = Mapping::from_iter([("/**".into(), Value::Mapping(section))]);
    serde_yaml_ng::to_string(&whole).map_err(|error| error.to_string())
}

/// Goes through sections; namespaces may be written as sections of sections.
fn collect(
    sections: &Mapping,
    prefix: &str,
    full_name: &str,
    taken: &mut Mapping,
) -> Result<(), String> {
    for (key, content) in sections {
        let (Some(key), Value::Mapping(content)) = (key.as_str(), content) else {
            return Err(format!(
                "section {key:?} below '{prefix}' has to be the name of a node with ros__parameters"
            ));
        };
        if key == "ros__parameters" {
            if matches(prefix, full_name) {
                merge(content, taken);
            }
        } else {
            let inner = format!("{prefix}/{}", key.trim_matches('/'));
            collect(content, &inner, full_name, taken)?;
        }
    }
    Ok(())
}

fn merge(from: &Mapping, into: &mut Mapping) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Mapping(old)), Value::Mapping(new)) => merge(new, old),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Whether a pattern of node names covers a full name: `*` stands for one part, `**` for any number.
fn matches(pattern: &str, full_name: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split('/')
            .filter(|part| !part.is_empty())
            .map(String::from)
            .collect()
    };
    covers(&parts(pattern), &parts(full_name))
}

fn covers(pattern: &[String], name: &[String]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((first, rest)), _) if first == "**" => {
            (0..=name.len()).any(|n| covers(rest, name.get(n..).unwrap_or_default()))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((part, others))) => {
            (first == "*" || first == part) && covers(rest, others)
        }
    }
}

/// The node's full name after the remap rules `__node` and `__ns`; the last of each wins.
fn full_name(arguments: &[String], node_name: &str) -> String {
    let rule = |name: &str| {
        arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix(name)?.strip_prefix(":="))
            .next_back()
            .map(str::to_owned)
    };
    let namespace = rule("__ns").unwrap_or_default();
    let name = rule("__node").unwrap_or_else(|| node_name.into());
    format!("{}/{name}", namespace.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_names_as_in_the_other_client_libraries() {
        for pattern in [
            "/**", "/**/node", "/a/node", "a/node", "/*/node", "/a/*", "/a/**",
        ] {
            assert!(matches(pattern, "/a/node"), "{pattern}");
        }
        for pattern in ["", "node", "/b/node", "/*", "/**/other", "/a/node/b"] {
            assert!(!matches(pattern, "/a/node"), "{pattern}");
        }
        assert!(matches("/**/node", "/node"));
        assert!(matches("node", "/node"));
    }

    #[test]
    fn names_follow_the_remap_rules() {
        let arguments = ["x", "--ros-args", "-r", "__ns:=/a", "-r", "__node:=b"].map(String::from);
        assert_eq!(full_name(&arguments, "node"), "/a/b");
        assert_eq!(full_name(&[], "node"), "/node");
    }

    fn parameters(text: &str, name: &str) -> Mapping {
        let mut taken = Mapping::new();
        take_sections(text, name, &mut taken).unwrap();
        taken
    }

    #[test]
    fn later_sections_win_and_others_are_left_out() {
        let text = "
/**: {ros__parameters: {a: 1, b: {c: 1, d: 1}}}
/**/node: {ros__parameters: {a: 2, b: {c: 2}}}
other: {ros__parameters: {a: 3}}
robot: {node: {ros__parameters: {e: 4}}}
";
        let taken = parameters(text, "/node");
        assert_eq!(taken["a"], 2);
        assert_eq!(taken["b"]["c"], 2);
        assert_eq!(taken["b"]["d"], 1);
        assert!(!taken.contains_key("e"));
        assert_eq!(parameters(text, "/robot/node")["e"], 4);
        assert!(parameters(text, "/other").contains_key("b"));
    }

    #[test]
    fn files_without_anything_for_the_node_are_no_error() {
        for text in ["", "# nothing\n", "other: {ros__parameters: {a: 1}}"] {
            assert!(parameters(text, "/node").is_empty());
        }
    }

    #[test]
    fn files_that_are_no_parameter_files_are_refused() {
        for text in [
            "just text",
            "- a\n- b",
            "node: 3",
            "a: {b: [1]}",
            "a: {ros__parameters: 1}",
            ":\n :",
        ] {
            assert!(
                take_sections(text, "/node", &mut Mapping::new()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn single_parameters_are_taken_out_and_win_when_they_come_later() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("p.yaml");
        std::fs::write(&file, "node: {ros__parameters: {a: 1.5, b: {c: 1}, d: x}}").unwrap();
        let file = file.to_string_lossy();
        let arguments = [
            "program",
            "-p",
            "mine:=1",
            "--ros-args",
            "-p",
            "d:=y",
            "--params-file",
            &file,
            "-p",
            "a:=2",
            "--param",
            "b.c:=text",
            "-p",
            "node:e:=[1, 2]",
            "-p",
            "other:f:=1",
            "-p",
            "g:=",
            "-r",
            "x:=y",
            "--",
            "-p",
            "mine:=2",
        ]
        .map(String::from);
        let (others, taken) = take_parameters(arguments.into(), "/node").unwrap();
        let left = [
            "program",
            "-p",
            "mine:=1",
            "--ros-args",
            "-r",
            "x:=y",
            "--",
            "-p",
            "mine:=2",
        ];
        assert_eq!(others, left);
        assert_eq!(
            document(taken).unwrap(),
            "/**:\n  ros__parameters:\n    d: x\n    a: 2\n    b:\n      c: text\n    e:\n    - 1\n    - 2\n    g: ''\n"
        );
    }

    #[test]
    fn rules_that_are_none_are_left_to_ros() {
        for rule in ["a", ":=1", ":a:=1", "a:=[1"] {
            assert!(!take_rule(rule, "/node", &mut Mapping::new()), "{rule}");
        }
    }

    #[test]
    fn types_survive_being_handed_on() {
        // An unquoted yes is a text in YAML 1.2 and true for ROS: it has to stay unquoted.
        let mut taken = Mapping::new();
        for rule in [
            "a:=1.0",
            "b:='1'",
            "c:=true",
            "d:='true'",
            "e:=.nan",
            "f:=yes",
            "g:=-3",
        ] {
            assert!(take_rule(rule, "/node", &mut taken));
        }
        let text = document(taken.clone()).unwrap();
        for line in [
            "a: 1.0",
            "b: '1'",
            "c: true",
            "d: 'true'",
            "e: .nan",
            "f: yes",
            "g: -3",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let arguments = ["x", "--ros-args", "--params-file", "/nowhere/p.yaml"].map(String::from);
        let error = from_arguments(arguments.into(), "node")
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("/nowhere/p.yaml")));
    }
}
