//! The parameter `robots`: who is simulated in the one world.

use eh_sim::fleet::{Member, MAX_ROBOTS};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    namespace: String,
    start: Option<[f64; 3]>,
}

/// The robots of the parameter: namespaces separated by commas, or a YAML list of `namespace` and `start`.
/// Empty: one robot in the node's own namespace.
///
/// # Errors
/// What is wrong with the text.
pub fn of_parameter(text: &str) -> Result<Vec<Member>, String> {
    let text = text.trim();
    let entries: Vec<Entry> = if text.is_empty() {
        Vec::new()
    } else if text.starts_with('[') {
        serde_yaml_ng::from_str(text).map_err(|error| {
            format!("{error}; write [{{namespace: robot1, start: [1.0, 2.0, 0.0]}}, …]")
        })?
    } else {
        text.split(',')
            .map(|name| Entry {
                namespace: name.trim().into(),
                start: None,
            })
            .collect()
    };
    if entries.len() > MAX_ROBOTS {
        return Err(format!(
            "{} robots are too many; at most {MAX_ROBOTS}",
            entries.len()
        ));
    }
    entries
        .into_iter()
        .map(|entry| {
            let name = entry.namespace;
            let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
            let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !starts_well || !rest || name.len() > 64 {
                let shown: String = name.chars().take(64).collect();
                return Err(format!(
                    "'{shown}' is no namespace; use letters, digits and _, a letter first"
                ));
            }
            Ok(Member {
                name,
                start: entry.start,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_or_a_list() {
        assert_eq!(of_parameter(" ").unwrap(), []);
        let names: Vec<String> = of_parameter("robot1, robot_2")
            .unwrap()
            .into_iter()
            .map(|m| m.name)
            .collect();
        assert_eq!(names, ["robot1", "robot_2"]);
        let list = of_parameter("[{namespace: a, start: [1, 2, 0.5]}, {namespace: b}]").unwrap();
        assert_eq!(list[0].start, Some([1.0, 2.0, 0.5]));
        assert_eq!(list[1].start, None);
    }

    #[test]
    fn what_is_no_namespace_is_refused() {
        for (text, says) in [
            ("a,,b", "''"),
            ("1a", "'1a'"),
            ("a/b", "'a/b'"),
            ("räuber", "räuber"),
            ("[{name: a}]", "name"),
            ("[{namespace: a, start: [1]}]", "namespace: robot1"),
            ("[", "namespace: robot1"),
        ] {
            let error = of_parameter(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let many = vec!["r"; 17].join(",");
        assert!(of_parameter(&many).unwrap_err().contains("17"));
    }
}
