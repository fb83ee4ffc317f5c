//! In which order effects are performed, and what a disk that fails leaves of them.
//!
//! Events are written in batches, each before anything that comes after it. When something can't be made
//! durable, what relies on it is not done: what stops, releases or shows is done all the same, what ends
//! something waits until the disk has it, and what would go on is dropped.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use eh_contract::session::{SessionEvent, TaskRecord};
use eh_ledger::issuer::IssuerRecord;

use crate::effect::{Effect, WithoutDisk};
use crate::event::Event;

/// What was not taken is tried again after this time, then after twice as long, and so on …
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// … but at least this often: a full disk is emptied some time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is to be made durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Save {
    /// A command.
    Command(Box<IssuerRecord>),
    /// A task.
    Task(Box<TaskRecord>),
    /// Events of the session log, all or none, in this order; published when they are durable.
    Events(Vec<SessionEvent>),
}

impl Save {
    /// Its name, as of the [`Effect`]s that it comes from.
    pub const fn failpoint(&self) -> &'static str {
        match self {
            Save::Command(_) => Effect::SAVE_COMMAND,
            Save::Task(_) => Effect::SAVE_TASK,
            Save::Events(_) => Effect::JOURNAL,
        }
    }
}

/// Who does what the [`Desk`] says.
pub trait Performer {
    /// Why this process ends in the middle of it; [`std::convert::Infallible`] where it can't be told.
    type Ended;

    /// Makes something durable; the inner error is why it is not.
    ///
    /// # Errors
    /// The process has ended.
    fn save(&mut self, save: &Save) -> Result<Result<(), String>, Self::Ended>;

    /// Does an effect that writes nothing.
    ///
    /// # Errors
    /// The process has ended.
    fn give_out(&mut self, effect: Effect) -> Result<(), Self::Ended>;
}

/// What has become of the disk while effects were performed: tell the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskNews {
    /// Something is not durable, and why; until it is, nothing that relies on it is done.
    Failed(String),
    /// Everything is durable again.
    Works,
}

impl From<DiskNews> for Event {
    fn from(news: DiskNews) -> Self {
        match news {
            DiskNews::Failed(reason) => Event::StorageFailed { reason },
            DiskNews::Works => Event::StorageWorks,
        }
    }
}

/// Performs effects in their order, and keeps what the disk does not take.
///
/// What is kept waits in its order and is tried again, ever more rarely, until it is durable: no record stays
/// behind what was told, and the log has no gap. It grows with what still happens to commands that are open,
/// since nothing new starts meanwhile. A process that ends takes it along; then nobody was told, and what is on
/// the disk counts.
#[derive(Clone, Debug)]
pub struct Desk {
    waiting: VecDeque<Waiting>,
    trouble: Option<String>,
    pause: Duration,
    again: Duration,
    /// Tasks that are on the disk as running.
    running: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Waiting {
    Save(Save),
    Effect(Effect),
}

impl Desk {
    /// A desk with nothing on it; `running` are the tasks that the disk has as running.
    pub fn new(running: impl IntoIterator<Item = String>) -> Self {
        Desk {
            waiting: VecDeque::new(),
            trouble: None,
            pause: FIRST_PAUSE,
            again: Duration::ZERO,
            running: running.into_iter().collect(),
        }
    }

    /// Why something is not durable; `None` while the disk works.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Performs effects, and tries what waits again when it is time: call it regularly, also without effects.
    /// `now` is the steady time. What is given back goes to the loop, whose effects come here again.
    ///
    /// # Errors
    /// The process has ended.
    pub fn perform<P: Performer>(
        &mut self,
        effects: Vec<Effect>,
        now: Duration,
        performer: &mut P,
    ) -> Result<Option<DiskNews>, P::Ended> {
        let mut news = self.try_again(now, performer)?;
        let mut events = Vec::new();
        for effect in effects {
            let save = match effect {
                Effect::Journal(event) => {
                    events.push(*event);
                    continue;
                }
                Effect::SaveCommand(record) => Ok(Save::Command(record)),
                Effect::SaveTask(record) => Ok(Save::Task(record)),
                other => Err(other),
            };
            self.flush(&mut events, now, performer, &mut news)?;
            match save {
                Ok(save) => self.save(save, now, performer, &mut news)?,
                Err(effect) => self.give_out(effect, performer)?,
            }
        }
        self.flush(&mut events, now, performer, &mut news)?;
        Ok(news)
    }

    fn flush<P: Performer>(
        &mut self,
        events: &mut Vec<SessionEvent>,
        now: Duration,
        performer: &mut P,
        news: &mut Option<DiskNews>,
    ) -> Result<(), P::Ended> {
        if events.is_empty() {
            return Ok(());
        }
        self.save(Save::Events(std::mem::take(events)), now, performer, news)
    }

    fn save<P: Performer>(
        &mut self,
        save: Save,
        now: Duration,
        performer: &mut P,
        news: &mut Option<DiskNews>,
    ) -> Result<(), P::Ended> {
        if self.trouble.is_some() {
            self.waiting.push_back(Waiting::Save(save));
            return Ok(());
        }
        if let Err(reason) = performer.save(&save)? {
            self.trouble = Some(reason.clone());
            self.pause = FIRST_PAUSE;
            self.again = now.saturating_add(self.pause);
            self.waiting.push_back(Waiting::Save(save));
            *news = Some(DiskNews::Failed(reason));
        } else {
            self.saved(&save);
        }
        Ok(())
    }

    fn saved(&mut self, save: &Save) {
        match save {
            Save::Task(record) if record.is_running() => {
                self.running.insert(record.request.task_id.clone());
            }
            Save::Task(record) => {
                self.running.remove(&record.request.task_id);
            }
            Save::Command(_) | Save::Events(_) => {}
        }
    }

    fn give_out<P: Performer>(
        &mut self,
        effect: Effect,
        performer: &mut P,
    ) -> Result<(), P::Ended> {
        if self.trouble.is_none() {
            return performer.give_out(effect);
        }
        match effect.without_disk() {
            WithoutDisk::Does => performer.give_out(effect),
            WithoutDisk::Waits => {
                if let Effect::Finish(record) = &effect {
                    let task_id = &record.request.task_id;
                    if !self.running.contains(task_id) {
                        // No start of it is on the disk, and none may ever be without its end.
                        self.forget_all_but_the_last(task_id);
                        return performer.give_out(effect);
                    }
                }
                let waiting = Waiting::Effect(effect);
                // What is asked for again and again is asked for once.
                if !self.waiting.contains(&waiting) {
                    self.waiting.push_back(waiting);
                }
                Ok(())
            }
            WithoutDisk::IsDropped => Ok(()),
        }
    }

    /// Of the records of a task that wait, leaves the newest.
    fn forget_all_but_the_last(&mut self, task_id: &str) {
        let is_of_it = |waiting: &Waiting| match waiting {
            Waiting::Save(Save::Task(record)) => record.request.task_id == task_id,
            Waiting::Save(Save::Command(_) | Save::Events(_)) | Waiting::Effect(_) => false,
        };
        let last = self.waiting.iter().rposition(is_of_it);
        let mut at = 0;
        self.waiting.retain(|waiting| {
            let keep = Some(at) == last || !is_of_it(waiting);
            at += 1;
            keep
        });
    }

    fn try_again<P: Performer>(
        &mut self,
        now: Duration,
        performer: &mut P,
    ) -> Result<Option<DiskNews>, P::Ended> {
        // A clock that was set back does not make the pause longer.
        let due = now >= self.again || self.again - now > self.pause;
        if self.trouble.is_none() || !due {
            return Ok(None);
        }
        while let Some(waiting) = self.waiting.pop_front() {
            match waiting {
                Waiting::Save(save) => {
                    if let Err(reason) = performer.save(&save)? {
                        self.waiting.push_front(Waiting::Save(save));
                        self.trouble = Some(reason);
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                        self.again = now.saturating_add(self.pause);
                        return Ok(None);
                    }
                    self.saved(&save);
                }
                Waiting::Effect(effect) => performer.give_out(effect)?,
            }
        }
        self.trouble = None;
        Ok(Some(DiskNews::Works))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_contract::session::EventKind;
    use eh_contract::state::TaskOutcome;
    use eh_contract::Stamp;
    use std::convert::Infallible;

    /// Writes down what it is told to do; saves of this name fail.
    struct Recorder {
        done: Vec<String>,
        failing: &'static str,
    }

    impl Performer for Recorder {
        type Ended = Infallible;

        fn save(&mut self, save: &Save) -> Result<Result<(), String>, Infallible> {
            if save.failpoint() == self.failing || self.failing == "all" {
                self.done.push("failed".into());
                return Ok(Err("the disk is full".into()));
            }
            self.done.push(match save {
                Save::Events(events) => {
                    let numbers: Vec<String> =
                        events.iter().map(|e| e.sequence.to_string()).collect();
                    format!("events {}", numbers.join(" "))
                }
                Save::Task(record) => format!("task {:?}", record.outcome),
                Save::Command(_) => "command".into(),
            });
            Ok(Ok(()))
        }

        fn give_out(&mut self, effect: Effect) -> Result<(), Infallible> {
            self.done.push(effect.failpoint().into());
            Ok(())
        }
    }

    fn event(sequence: u64) -> Effect {
        Effect::Journal(Box::new(SessionEvent {
            robot_id: "robot".into(),
            task_id: "t1".into(),
            command_id: String::new(),
            run_id: String::new(),
            plan_version: 0,
            sequence,
            stamp: Stamp(1),
            kind: EventKind::Plan,
            text: String::new(),
            payload: serde_json::Value::Null,
            model_version: String::new(),
            config_version: String::new(),
            evidence: vec![],
        }))
    }

    fn task(outcome: TaskOutcome) -> Box<TaskRecord> {
        let mut record = TaskRecord::default();
        record.request.task_id = "t1".into();
        record.outcome = outcome;
        Box::new(record)
    }

    fn running() -> Effect {
        Effect::SaveTask(task(TaskOutcome::Unspecified))
    }

    /// The end of a task, as the loop gives it out.
    fn end() -> Vec<Effect> {
        vec![
            event(9),
            Effect::SaveTask(task(TaskOutcome::Failed)),
            Effect::ReleaseLease,
            Effect::Finish(task(TaskOutcome::Failed)),
        ]
    }

    struct Bench {
        desk: Desk,
        recorder: Recorder,
    }

    impl Bench {
        fn new(running: &[&str]) -> Self {
            Bench {
                desk: Desk::new(running.iter().map(|id| (*id).to_owned())),
                recorder: Recorder {
                    done: vec![],
                    failing: "",
                },
            }
        }

        fn at(
            &mut self,
            ms: u64,
            failing: &'static str,
            effects: Vec<Effect>,
        ) -> (Vec<String>, Option<DiskNews>) {
            self.recorder.failing = failing;
            let now = Duration::from_millis(ms);
            let Ok(news) = self.desk.perform(effects, now, &mut self.recorder);
            (std::mem::take(&mut self.recorder.done), news)
        }
    }

    fn failed() -> Option<DiskNews> {
        Some(DiskNews::Failed("the disk is full".into()))
    }

    #[test]
    fn events_are_written_together_and_before_what_follows_them() {
        let (done, news) = Bench::new(&[]).at(
            0,
            "",
            vec![
                event(1),
                event(2),
                running(),
                Effect::AcquireLease,
                event(3),
            ],
        );
        assert_eq!(
            done,
            [
                "events 1 2",
                "task Unspecified",
                "harness.acquire_lease",
                "events 3"
            ]
        );
        assert_eq!(news, None);
    }

    #[test]
    fn after_a_failed_write_what_stops_and_shows_is_done_and_what_goes_on_is_not() {
        for failing in [Effect::SAVE_TASK, Effect::JOURNAL, "all"] {
            let mut bench = Bench::new(&["t1"]);
            let (done, news) = bench.at(
                0,
                failing,
                vec![
                    event(1),
                    running(),
                    Effect::AcquireLease,
                    Effect::ReadScene { ticket: 1 },
                    Effect::ReleaseLease,
                    Effect::Warn(String::new()),
                ],
            );
            let done: Vec<&str> = done.iter().map(String::as_str).collect();
            let after = done.iter().position(|d| *d == "failed").unwrap();
            assert_eq!(done[after + 1..], ["harness.release_lease", "harness.warn"]);
            assert_eq!(news, failed());
            assert_eq!(bench.desk.trouble(), Some("the disk is full"));
        }
    }

    #[test]
    fn what_was_not_taken_is_written_later_in_its_order_and_told_then() {
        let mut bench = Bench::new(&[]);
        bench.at(0, "", vec![running()]);
        let (_, news) = bench.at(10, "all", vec![event(1), event(2)]);
        assert_eq!(news, failed());
        let (done, news) = bench.at(20, "", end());
        assert_eq!(done, ["harness.release_lease"], "not tried again yet");
        assert_eq!(news, None);
        // Tried again 200 ms after the failure, then 400 ms after that; in between not.
        let (done, _) = bench.at(210, "all", vec![]);
        assert_eq!(done, ["failed"]);
        assert!(bench.at(600, "", vec![]).0.is_empty());
        let (done, news) = bench.at(610, "", vec![event(10)]);
        assert_eq!(
            done,
            [
                "events 1 2",
                "events 9",
                "task Failed",
                "harness.finish",
                "events 10"
            ]
        );
        assert_eq!(news, Some(DiskNews::Works));
        assert_eq!(bench.desk.trouble(), None);
    }

    #[test]
    fn a_task_that_never_was_on_the_disk_ends_at_once_and_never_is_there_as_running() {
        let mut bench = Bench::new(&[]);
        bench.at(0, "all", vec![running(), event(1), running()]);
        let (done, _) = bench.at(10, "all", end());
        assert_eq!(done, ["harness.release_lease", "harness.finish"]);
        let (done, news) = bench.at(200, "", vec![]);
        assert_eq!(done, ["events 1", "events 9", "task Failed"]);
        assert_eq!(news, Some(DiskNews::Works));
    }

    #[test]
    fn a_task_of_an_earlier_life_is_on_the_disk() {
        let mut bench = Bench::new(&["t1"]);
        let (done, _) = bench.at(0, "all", end());
        assert_eq!(done, ["failed", "harness.release_lease"]);
    }

    #[test]
    fn what_is_asked_for_again_waits_once_and_pauses_are_bounded() {
        let mut bench = Bench::new(&["t1"]);
        let evaluate = || Effect::Evaluate {
            command_id: "c1".into(),
            run_id: "r1".into(),
            segment: 0,
        };
        bench.at(0, "all", vec![event(1)]);
        let mut tries = 0;
        for ms in (0..60_000).step_by(100) {
            let (done, _) = bench.at(ms, "all", vec![evaluate()]);
            tries += done.len();
        }
        // 0.2, 0.6, 1.4, 3.0, 6.2 s, then every 5 s: 10 more until 56.2 s.
        assert_eq!(tries, 15);
        // The clock was set back: no pause is longer than the longest.
        let (done, _) = bench.at(1000, "", vec![]);
        assert_eq!(done, ["events 1", "harness.evaluate"]);
    }
}
