//! What the steps of a goal so far teach about the next.

use std::collections::{BTreeMap, BTreeSet};

use eh_contract::condition::{Near, Predicate, Visible};
use eh_contract::error_code::ErrorCode;
use eh_contract::session::StepReport;
use eh_contract::skill::SkillDescriptor;
use eh_contract::state::CommandState;

use super::{arguments_of, Work};
use crate::regression::Experience;

/// How often one step may fail within a goal before other ways are tried. The harness bounds attempts by
/// its own numbers as well; this one only decides when the planner looks for something else.
const MAX_FAILURES: u32 = 3;

/// How often one step may succeed within a goal without the goal coming nearer.
const MAX_SUCCESSES: usize = 4;

impl Work<'_> {
    /// What the steps since the goal's begin teach.
    pub(super) fn learn(&self) -> Experience {
        let mut out = Experience::default();
        let steps = self.steps();
        let keys: Vec<Option<(String, &SkillDescriptor)>> = steps
            .iter()
            .map(|s| {
                let d = self.descriptor(&s.skill)?;
                Some((self.skills.key(&s.skill, &arguments_of(s))?, d))
            })
            .collect();
        let mut successes: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, (step, entry)) in steps.iter().zip(&keys).enumerate() {
            let Some((key, descriptor)) = entry else {
                continue;
            };
            match step.command_state {
                CommandState::Succeeded => {
                    *successes.entry(key).or_default() += 1;
                }
                CommandState::Failed | CommandState::Rejected | CommandState::Canceled => {
                    let count = out.failures.entry(key.clone()).or_default();
                    *count += 1;
                    let hopeless = step.error_code != 0
                        && descriptor
                            .failure_modes
                            .iter()
                            .any(|m| m.error_code == step.error_code && !m.recoverable);
                    if hopeless || *count >= MAX_FAILURES {
                        out.banned.insert(key.clone());
                    }
                    let unreachable = [
                        ErrorCode::OutOfReach,
                        ErrorCode::InCollision,
                        ErrorCode::ArmNoPlan,
                    ]
                    .iter()
                    .any(|c| c.code() == step.error_code);
                    let executed = step.command_state == CommandState::Failed
                        || step.error_code == ErrorCode::StalePrecondition.code();
                    // What was measured to be in the fingers is not looked for or driven up to: the arm
                    // may still be at the place where it was grasped.
                    let in_hand = step.measured.iter().any(|p| p.get("holding").is_some());
                    let executed = executed && !in_hand;
                    let approach = *count >= 2 || unreachable;
                    let renewed = |of: fn(&Predicate) -> bool| {
                        self.renewed_since(descriptor, step, steps.get(i + 1..).unwrap_or(&[]), of)
                    };
                    let seen = renewed(|p| matches!(p, Predicate::Visible(_)));
                    let near = renewed(|p| matches!(p, Predicate::Near(_) | Predicate::At(_)));
                    let mut mark = |set: fn(&mut Experience) -> &mut BTreeSet<String>, on: bool| {
                        if on {
                            set(&mut out).insert(key.clone());
                        } else {
                            set(&mut out).remove(key);
                        }
                    };
                    mark(|e| &mut e.look_again, executed && !seen);
                    mark(|e| &mut e.approach_again, executed && approach && !near);
                }
                CommandState::Unspecified
                | CommandState::Proposed
                | CommandState::Committed
                | CommandState::Dispatched
                | CommandState::Accepted
                | CommandState::Running
                | CommandState::Evaluating
                | CommandState::Canceling
                | CommandState::Unknown
                | CommandState::Reconciling => {}
            }
        }
        for (key, count) in successes {
            if count >= MAX_SUCCESSES {
                out.banned.insert(key.to_string());
            }
        }
        if let [.., (a, Some((x, _))), (b, Some((y, _)))] =
            steps.iter().zip(&keys).collect::<Vec<_>>().as_slice()
        {
            let both = a.command_state == CommandState::Succeeded
                && b.command_state == CommandState::Succeeded;
            if both && x == y {
                out.banned.insert(x.clone());
            }
        }
        out
    }

    /// Whether later steps brought about anew what a failed step needs, of one sort.
    fn renewed_since(
        &self,
        descriptor: &SkillDescriptor,
        failed: &StepReport,
        later: &[StepReport],
        of: fn(&Predicate) -> bool,
    ) -> bool {
        let Ok(condition) = descriptor.preconditions.bind(&arguments_of(failed)) else {
            return true;
        };
        condition
            .predicates()
            .into_iter()
            .filter(|p| of(p))
            .all(|p| self.brought_about(p, later))
    }

    /// Whether one of these steps succeeded and declares that it brings a predicate about.
    pub(super) fn brought_about(&self, predicate: &Predicate, steps: &[StepReport]) -> bool {
        // Limits are left to the scene: a declared effect has none.
        let plain = match predicate {
            Predicate::Near(n) => Predicate::Near(Near {
                max_distance: None,
                ..n.clone()
            }),
            Predicate::Visible(v) => Predicate::Visible(Visible {
                max_age: None,
                ..v.clone()
            }),
            other => other.clone(),
        };
        steps.iter().any(|s| {
            s.command_state == CommandState::Succeeded
                && self.skills.adds(&s.skill, &arguments_of(s), &plain)
        })
    }
}
