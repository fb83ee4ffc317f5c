//! Times in an instruction.

use super::{is_chinese, starts_noun_phrase, Parser};
use crate::lexicon::{Reading, Token};

/// Longest time that can be said \[s\]; a longer one is cut by the skill's own schema.
const MAX_SECONDS: f64 = 86_400.0;

impl Parser<'_> {
    /// A time such as "5 seconds", 五秒, "a moment"; for a verb without slots a bare number too.
    pub(super) fn time(&mut self) -> Option<f64> {
        let unit = |t: &Token| {
            t.readings.iter().find_map(|r| match r {
                Reading::Unit(u) => Some(*u),
                _ => None,
            })
        };
        let (mut total, mut count) = self.number();
        let mut factor = None;
        if count == 0 {
            // 一个小时, "a moment" where "a" stands in another phrase.
            let one = self.peek(0)?.can(|r| *r == Reading::Indefinite);
            if one {
                factor = self.peek(1).and_then(unit);
                (total, count) = (1.0, 2);
            }
        } else {
            // "half a minute": what stands between number and unit.
            let between = usize::from(
                self.peek(count)
                    .is_some_and(|t| t.can(|r| *r == Reading::Indefinite)),
            );
            if let Some(u) = self.peek(count + between).and_then(unit) {
                factor = Some(u);
                count += between + 1;
            } else if self.bare_number(count) {
                factor = Some(1.0);
            }
        }
        let seconds = total * factor?;
        self.at += count;
        // "1 minute 30 seconds" adds up.
        let so_far = self.clause.number.unwrap_or(0.0);
        Some((so_far + seconds).clamp(0.0, MAX_SECONDS))
    }

    /// The number at this place and how many tokens it has: digits, 三十五, "twenty five"; none: (0, 0).
    pub(super) fn number(&self) -> (f64, usize) {
        let number = |t: &Token| {
            t.readings.iter().find_map(|r| match r {
                Reading::Number(n) => Some(*n),
                _ => None,
            })
        };
        let (mut total, mut current, mut count) = (0.0, 0.0, 0);
        let mut before: Option<f64> = None;
        while let Some((token, n)) = self.peek(count).and_then(|t| Some((t, number(t)?))) {
            let chinese = is_chinese(token);
            let multiplies = (n == 10.0 || n == 100.0) && chinese;
            // Two numbers side by side are one only where they add up as people count.
            let goes_on = before.is_none_or(|b| {
                if chinese {
                    multiplies || b == 10.0 || b == 100.0
                } else {
                    b >= 20.0 && b % 10.0 == 0.0 && n < 10.0
                }
            });
            if !goes_on {
                break;
            }
            if multiplies {
                total += if current == 0.0 { n } else { current * n };
                current = 0.0;
            } else {
                total += current;
                current = n;
            }
            before = Some(n);
            count += 1;
        }
        (total + current, count)
    }

    fn bare_number(&self, count: usize) -> bool {
        let slotless = self
            .clause
            .verb
            .as_ref()
            .and_then(|(name, _)| self.tables.phrases.verbs.get(name))
            .is_some_and(|v| v.slots.is_empty());
        slotless && !self.peek(count).is_some_and(starts_noun_phrase)
    }
}
