//! What happened, as a person reads it, and a number that differs when anything of it differs.

use std::fmt::Arguments;
use std::fmt::Write as _;
use std::time::Duration;

/// The trace of one run. Lines are kept only where somebody wants to read them; the digest always counts
/// all of them.
#[derive(Clone, Debug)]
pub struct Trace {
    lines: Option<Vec<String>>,
    line: String,
    digest: u64,
    count: u64,
}

impl Trace {
    /// An empty trace; `keep`: its lines are wanted.
    pub fn new(keep: bool) -> Self {
        Trace {
            lines: keep.then(Vec::new),
            line: String::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            count: 0,
        }
    }

    /// Notes what somebody did.
    pub fn note(&mut self, now: Duration, who: &dyn std::fmt::Display, what: Arguments<'_>) {
        self.line.clear();
        // Writing to a string can't fail.
        let _ = write!(self.line, "{:8.2} {who:<16} {what}", now.as_secs_f64());
        // FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
        for byte in self.line.as_bytes() {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.count += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    /// Counts a number that no line says, such as the digest of the robot.
    pub fn count(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The number.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Lines noted so far, kept or not.
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// True when nothing was noted.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lines; empty where they were not wanted.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_same_whether_lines_are_kept_or_not() {
        let mut both = [Trace::new(true), Trace::new(false)];
        for trace in &mut both {
            trace.note(
                Duration::from_millis(1500),
                &"harness",
                format_args!("saves {}", 1),
            );
            trace.count(7);
        }
        let [kept, dropped] = both;
        assert_eq!(kept.digest(), dropped.digest());
        assert_eq!(kept.lines(), ["    1.50 harness          saves 1"]);
        assert!(dropped.lines().is_empty() && dropped.len() == 1);
    }
}
