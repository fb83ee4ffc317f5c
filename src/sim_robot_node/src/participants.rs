//! Those who live by the simulated clock, and whether they keep up with it.
//!
//! A budget of seconds on a clock that runs twenty times as fast is a few scheduling slices of the machine: a
//! lease of 3 s would be over after 150 ms, because two processes had to wait for a processor. So the real time
//! factor is what the simulation runs at *at most*: its clock does not get ahead of those whose word it should
//! have heard by now. Who has died is waited for a moment and no longer, since watchdogs must be able to notice.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use eh_ros_edge::convert::command::budget;
use eh_ros_edge::qos;
use rclrs::{IntoPrimitiveOptions, Node, RclrsError};
use ros_env::embodied_harness::msg::{ControlLease, ExecutorBeacon, ProtectionState};

use crate::simulation_thread::SimulationHandle;

/// How far simulated time may get ahead of a participant's last word. The least frequent word is the state of
/// protection, every 0.4 s; less than this would not let it be told.
const LEAD: Duration = Duration::from_millis(800);

/// How long, by this machine's clock, a participant is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Most participants; more are not waited for.
const MOST: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Word {
    simulated: Duration,
    at: Instant,
}

/// The last word of each participant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Participants {
    words: BTreeMap<String, Word>,
}

impl Participants {
    /// Takes a word that was heard at a simulated time, and at a time of this machine.
    pub(crate) fn heard(&mut self, name: &str, simulated: Duration, at: Instant) {
        let word = Word { simulated, at };
        if self.words.len() < MOST || self.words.contains_key(name) {
            self.words.insert(name.into(), word);
        }
    }

    /// The participant that simulated time has got ahead of, if it is still waited for.
    pub(crate) fn behind(&self, simulated: Duration, at: Instant) -> Option<&str> {
        self.words
            .iter()
            .find(|(_, word)| {
                simulated.saturating_sub(word.simulated) > LEAD
                    && at.saturating_duration_since(word.at) < PATIENCE
            })
            .map(|(name, _)| name.as_str())
    }
}

/// Whether what is left of the lease shows that its holder renews it: that happens three times in its lifetime.
/// Where nobody holds it nobody has to.
fn is_renewed(lease: &ControlLease) -> bool {
    lease.controller_id.is_empty() || budget(&lease.remaining) * 5 >= budget(&lease.ttl) * 3
}

/// Listens to the participants of one robot. It needs none of them.
///
/// # Errors
/// If ROS refuses a subscription.
pub(crate) fn listen(
    node: &Node,
    simulation: &SimulationHandle,
) -> Result<Vec<Box<dyn Any>>, RclrsError> {
    let word = |handle: &SimulationHandle, name: String| {
        handle.tell(move |s| {
            let now = s.robot.now();
            s.participants.heard(&name, now, Instant::now());
        });
    };
    let to = simulation.clone();
    let beacons = node.create_subscription::<ExecutorBeacon, _>(
        "executor_beacon".qos(qos::control()),
        move |m: ExecutorBeacon| word(&to, m.executor),
    )?;
    let to = simulation.clone();
    let protection = node.create_subscription::<ProtectionState, _>(
        "protection_state".qos(qos::state_latched(1)),
        move |_: ProtectionState| word(&to, "the protection".into()),
    )?;
    let to = simulation.clone();
    let lease = node.create_subscription::<ControlLease, _>(
        "control_lease".qos(qos::state_latched(1)),
        move |m: ControlLease| {
            if is_renewed(&m) {
                word(&to, "the holder of the lease".into());
            }
        },
    )?;
    Ok(vec![
        Box::new(beacons),
        Box::new(protection),
        Box::new(lease),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_ros_edge::convert::command::budget_msg;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_clock_waits_for_who_is_late_and_not_for_who_is_gone() {
        let start = Instant::now();
        let mut participants = Participants::default();
        assert_eq!(
            participants.behind(ms(60_000), start),
            None,
            "nobody is there"
        );
        participants.heard("a", ms(1000), start);
        participants.heard("b", ms(1500), start);
        assert_eq!(participants.behind(ms(1800), start), None);
        // 801 ms ahead of the one, 301 ms of the other.
        assert_eq!(participants.behind(ms(1801), start + ms(40)), Some("a"));
        participants.heard("a", ms(1801), start + ms(50));
        assert_eq!(participants.behind(ms(1801), start + ms(50)), None);
        assert_eq!(participants.behind(ms(2301), start + ms(60)), Some("b"));
        // b has said nothing for two seconds of this machine; a has, at 50 ms.
        assert_eq!(participants.behind(ms(2301), start + ms(2000)), None);
        assert_eq!(participants.behind(ms(2602), start + ms(2000)), Some("a"));
        assert_eq!(participants.behind(ms(2602), start + ms(2050)), None);
    }

    #[test]
    fn a_clock_that_is_set_back_waits_for_nobody() {
        let start = Instant::now();
        let mut participants = Participants::default();
        participants.heard("a", ms(90_000), start + ms(500));
        assert_eq!(participants.behind(ms(0), start), None);
    }

    #[test]
    fn the_number_of_participants_is_bounded() {
        let start = Instant::now();
        let mut participants = Participants::default();
        for n in 0..1000 {
            participants.heard(&format!("p{n}"), ms(0), start);
        }
        assert_eq!(participants.words.len(), MOST);
    }

    #[test]
    fn a_lease_that_is_not_renewed_tells_of_its_holder() {
        let lease = |holder: &str, remaining| ControlLease {
            controller_id: holder.into(),
            token: 1,
            ttl: budget_msg(ms(3000)),
            remaining: budget_msg(ms(remaining)),
        };
        // Renewed after a third, 2 s are left.
        assert!(is_renewed(&lease("h", 2000)));
        assert!(is_renewed(&lease("h", 1800)));
        assert!(!is_renewed(&lease("h", 1799)));
        assert!(is_renewed(&lease("", 0)));
    }
}
