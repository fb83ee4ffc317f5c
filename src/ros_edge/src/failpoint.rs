//! Crashes on purpose, for tests that kill a node where it hurts the most.
//!
//! `EMBODIED_HARNESS_CRASH_AT=executor.append.started:after:2` ends the process by SIGKILL right after the
//! second time that this was done. Nothing is flushed, told or released: it is as if the power had failed for
//! this one process. Without the variable a failpoint costs one comparison.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use signal_hook::consts::SIGKILL;

/// The variable.
pub const VARIABLE: &str = "EMBODIED_HARNESS_CRASH_AT";

/// Just before something is done, or right after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Not done yet.
    Before,
    /// Done.
    After,
}

/// Where a process is to end.
#[derive(Debug)]
struct CrashPlan {
    name: String,
    moment: Moment,
    /// How often the place is still to be passed.
    left: AtomicU32,
}

impl FromStr for CrashPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{VARIABLE} is \"{text}\"; write NAME:before:COUNT or NAME:after:COUNT, for example executor.send_goal:before:1")
        };
        let mut parts = text.split(':');
        let (Some(name), Some(moment), Some(count), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let moment = match moment {
            "before" => Moment::Before,
            "after" => Moment::After,
            _ => return Err(wrong()),
        };
        match count.parse() {
            Ok(count) if count > 0 && !name.is_empty() => Ok(CrashPlan {
                name: name.into(),
                moment,
                left: AtomicU32::new(count),
            }),
            _ => Err(wrong()),
        }
    }
}

impl CrashPlan {
    /// Whether the process ends here and now.
    fn strikes(&self, name: &str, moment: Moment) -> bool {
        self.moment == moment
            && self.name == name
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                == Ok(1)
    }
}

fn plan() -> Option<&'static CrashPlan> {
    static PLAN: OnceLock<Option<CrashPlan>> = OnceLock::new();
    PLAN.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok().filter(|t| !t.is_empty())?;
        match text.parse() {
            Ok(plan) => Some(plan),
            Err(error) => {
                eprintln!("{error}; it is ignored");
                None
            }
        }
    })
    .as_ref()
}

/// A place where a crash may be put. Does not return when it is put here.
pub fn reach(name: &str, moment: Moment) {
    if plan().is_some_and(|p| p.strikes(name, moment)) {
        eprintln!("crash on purpose {moment:?} {name}");
        // Fails only for a signal that does not exist.
        let _ = signal_hook::low_level::raise(SIGKILL);
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_strikes_once_at_its_count_and_moment() {
        let plan: CrashPlan = "a.b:after:2".parse().unwrap();
        assert!(!plan.strikes("a.b", Moment::Before));
        assert!(!plan.strikes("a.c", Moment::After));
        assert!(!plan.strikes("a.b", Moment::After));
        assert!(plan.strikes("a.b", Moment::After));
        assert!(!plan.strikes("a.b", Moment::After));
    }

    #[test]
    fn nonsense_is_named() {
        for text in [
            "",
            "a",
            "a:b:1",
            "a:after:0",
            "a:after:x",
            ":after:1",
            "a:after:1:2",
        ] {
            let error = text.parse::<CrashPlan>().unwrap_err();
            assert!(error.contains("NAME:before:COUNT"), "{error}");
        }
    }
}
