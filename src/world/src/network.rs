//! The network: every message takes its time, some get lost, some come twice, links are cut for a while, and
//! nobody hears of anybody before they have found each other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;

use crate::message::{Body, Letter, News, Quality, Reply, Request, Topic};
use crate::process_id::{Address, ProcessId};
use crate::random::{between, chance};

const PROCESSES: usize = ProcessId::ALL.len();

/// How bad the network is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Share of sensor messages that get lost.
    pub stream_loss: f64,
    /// Share of requests and answers that get lost.
    pub call_loss: f64,
    /// Share of messages that come twice, where that is possible.
    pub doubled: f64,
    /// Longest common delay.
    pub delay: Duration,
    /// Share of messages that are much slower.
    pub slow: f64,
    /// How slow those are at most.
    pub slow_delay: Duration,
    /// Longest time for two processes to find each other.
    pub discovery: Duration,
    /// Longest time until somebody's end is noticed.
    pub ghost: Duration,
}

impl Conditions {
    /// A network at its best.
    pub const GOOD: Conditions = Conditions {
        stream_loss: 0.0,
        call_loss: 0.0,
        doubled: 0.0,
        delay: Duration::from_millis(5),
        slow: 0.0,
        slow_delay: Duration::ZERO,
        discovery: Duration::from_millis(200),
        ghost: Duration::ZERO,
    };
}

/// A link that is cut for a while, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// One end.
    pub a: ProcessId,
    /// The other.
    pub b: ProcessId,
    /// From here on …
    pub from: Duration,
    /// … until here.
    pub until: Duration,
    /// Requests and answers are lost; otherwise they are held back until it is over.
    pub loses: bool,
}

impl Cut {
    fn is_between(&self, a: ProcessId, b: ProcessId) -> bool {
        (self.a == a && self.b == b) || (self.a == b && self.b == a)
    }
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Given to the network.
    pub sent: u64,
    /// Lost on the way, to a dead process or in a cut.
    pub lost: u64,
    /// Came twice.
    pub doubled: u64,
    /// Overtaken by a later one of the same pair of processes.
    pub overtaken: u64,
}

#[derive(Clone, Copy, Debug)]
struct Party {
    life: u32,
    alive: bool,
    /// When its end is noticed by others.
    noticed: Duration,
}

/// The network.
#[derive(Debug)]
pub struct Network {
    rng: ChaCha8Rng,
    conditions: Conditions,
    /// After this time nothing goes wrong any more.
    calm_from: Duration,
    cuts: Vec<Cut>,
    parties: [Party; PROCESSES],
    /// When two processes have found each other.
    found: [[Option<Duration>; PROCESSES]; PROCESSES],
    /// Whether the latched values have been given over such a link.
    joined: [[bool; PROCESSES]; PROCESSES],
    latched: BTreeMap<(ProcessId, Topic), VecDeque<News>>,
    order: BTreeMap<(ProcessId, Topic, ProcessId), Duration>,
    last: [[Duration; PROCESSES]; PROCESSES],
    queue: BTreeMap<(Duration, u64), Letter>,
    sequence: u64,
    counts: Counts,
}

impl Network {
    /// A network between processes that are all dead yet.
    pub fn new(
        rng: ChaCha8Rng,
        conditions: Conditions,
        cuts: Vec<Cut>,
        calm_from: Duration,
    ) -> Self {
        Network {
            rng,
            conditions,
            calm_from,
            cuts,
            parties: [Party {
                life: 0,
                alive: false,
                noticed: Duration::ZERO,
            }; PROCESSES],
            found: [[None; PROCESSES]; PROCESSES],
            joined: [[false; PROCESSES]; PROCESSES],
            latched: BTreeMap::new(),
            order: BTreeMap::new(),
            last: [[Duration::ZERO; PROCESSES]; PROCESSES],
            queue: BTreeMap::new(),
            sequence: 0,
            counts: Counts::default(),
        }
    }

    /// What became of messages so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    fn party(&self, process: ProcessId) -> Party {
        // An index below the length: it is the place of a variant.
        self.parties[process.index()]
    }

    /// The life of a process.
    pub fn address(&self, process: ProcessId) -> Address {
        Address {
            process,
            life: self.party(process).life,
        }
    }

    /// A process begins a life. It finds the others one after the other.
    pub fn begin(&mut self, process: ProcessId, now: Duration) -> Address {
        let i = process.index();
        self.parties[i].life += 1;
        self.parties[i].alive = true;
        for other in ProcessId::ALL {
            let j = other.index();
            let found = (self.parties[j].alive && i != j).then(|| {
                let most = self.conditions.discovery;
                now + between(&mut self.rng, Duration::from_millis(20), most)
            });
            self.found[i][j] = found;
            self.found[j][i] = found;
            self.joined[i][j] = false;
            self.joined[j][i] = false;
        }
        self.address(process)
    }

    /// A process is gone; what it had sent travels on.
    pub fn end(&mut self, process: ProcessId, now: Duration) {
        let ghost = between(&mut self.rng, Duration::ZERO, self.conditions.ghost);
        let party = &mut self.parties[process.index()];
        party.alive = false;
        party.noticed = now + ghost;
        self.latched
            .retain(|(publisher, _), _| *publisher != process);
        self.order
            .retain(|(from, _, to), _| *from != process && *to != process);
    }

    fn is_linked(&self, a: ProcessId, b: ProcessId, now: Duration) -> bool {
        self.found[a.index()][b.index()].is_some_and(|at| at <= now)
    }

    /// Whether one process believes that another is there.
    pub fn is_there(&self, from: ProcessId, to: ProcessId, now: Duration) -> bool {
        let party = self.party(to);
        self.is_linked(from, to, now) && (party.alive || now < party.noticed)
    }

    /// Whether the link between two processes is cut.
    pub fn is_cut(&self, a: ProcessId, b: ProcessId, now: Duration) -> bool {
        self.cut(a, b, now).is_some()
    }

    fn cut(&self, a: ProcessId, b: ProcessId, now: Duration) -> Option<Cut> {
        self.cuts
            .iter()
            .find(|c| c.is_between(a, b) && (c.from..c.until).contains(&now))
            .copied()
    }

    fn delay(&mut self, now: Duration) -> Duration {
        let c = self.conditions;
        let delay = between(&mut self.rng, Duration::from_millis(1), c.delay);
        if now < self.calm_from && chance(&mut self.rng, c.slow) {
            delay + between(&mut self.rng, Duration::ZERO, c.slow_delay)
        } else {
            delay
        }
    }

    fn happens(&mut self, probability: f64, now: Duration) -> bool {
        // Drawn in any case: what comes later does not depend on when it is calm.
        chance(&mut self.rng, probability) && now < self.calm_from
    }

    fn enqueue(&mut self, letter: Letter, due: Duration) {
        let (from, to) = (letter.from.process.index(), letter.to.process.index());
        if due < self.last[from][to] {
            self.counts.overtaken += 1;
        }
        self.last[from][to] = self.last[from][to].max(due);
        self.sequence += 1;
        self.queue.insert((due, self.sequence), letter);
    }

    /// Publishes news to everybody who has been found.
    pub fn publish(&mut self, from: Address, news: News, now: Duration) {
        let topic = news.topic();
        if let Quality::Latched(depth) = topic.quality() {
            let kept = self.latched.entry((from.process, topic)).or_default();
            kept.push_back(news.clone());
            while kept.len() > depth {
                kept.pop_front();
            }
        }
        for to in topic.listeners() {
            // Who has not been given the latched values yet gets this one among them.
            let joined = self.joined[from.process.index()][to.index()];
            if *to != from.process && joined && self.party(*to).alive {
                self.give(from, *to, news.clone(), now);
            }
        }
    }

    fn give(&mut self, from: Address, to: ProcessId, news: News, now: Duration) {
        self.counts.sent += 1;
        let topic = news.topic();
        let delay = self.delay(now);
        let lost = self.happens(self.conditions.stream_loss, now);
        let doubled = self.happens(self.conditions.doubled, now);
        let mut due = now + delay;
        let cut = self.cut(from.process, to, now);
        match topic.quality() {
            Quality::BestEffort => {
                // What comes much later has been overtaken, and is dropped by who reads.
                let overtaken = delay > self.conditions.delay.max(Duration::from_millis(1));
                if lost || overtaken || cut.is_some() {
                    self.counts.lost += 1;
                    return;
                }
                let order = self.order.entry((from.process, topic, to)).or_default();
                due = due.max(*order);
                *order = due;
            }
            Quality::Reliable | Quality::Latched(_) => {
                if let Some(cut) = cut {
                    due = due.max(cut.until + delay);
                }
                let order = self.order.entry((from.process, topic, to)).or_default();
                due = due.max(*order);
                *order = due;
            }
        }
        let letter = Letter {
            from,
            to: self.address(to),
            body: Body::News(news),
        };
        // A copy that comes after later news takes those back, where nothing numbers them.
        if doubled && matches!(topic, Topic::Statuses | Topic::Run) {
            self.counts.doubled += 1;
            let again = due + self.delay(now);
            self.enqueue(letter.clone(), again);
        }
        self.enqueue(letter, due);
    }

    /// Sends a request to the present life of a process. False: it gets lost.
    pub fn request(
        &mut self,
        from: Address,
        to: ProcessId,
        call: u64,
        request: Request,
        now: Duration,
    ) -> bool {
        let doubled = request.may_be_doubled() && self.happens(self.conditions.doubled, now);
        let letter = Letter {
            from,
            to: self.address(to),
            body: Body::Request { call, request },
        };
        self.post(letter, doubled, now)
    }

    /// Answers a request. False: the answer gets lost.
    pub fn reply(
        &mut self,
        from: Address,
        to: Address,
        call: u64,
        reply: Reply,
        now: Duration,
    ) -> bool {
        let doubled = self.happens(self.conditions.doubled, now);
        let letter = Letter {
            from,
            to,
            body: Body::Reply { call, reply },
        };
        self.post(letter, doubled, now)
    }

    fn post(&mut self, letter: Letter, doubled: bool, now: Duration) -> bool {
        self.counts.sent += 1;
        let (from, to) = (letter.from.process, letter.to.process);
        let delay = self.delay(now);
        let lost = self.happens(self.conditions.call_loss, now);
        let cut = self.cut(from, to, now);
        let dead = !self.party(to).alive || !self.is_linked(from, to, now);
        if lost || dead || cut.is_some_and(|c| c.loses) {
            self.counts.lost += 1;
            return false;
        }
        let due = cut.map_or(now, |c| c.until) + delay;
        if doubled {
            self.counts.doubled += 1;
            let again = due + self.delay(now);
            self.enqueue(letter.clone(), again);
        }
        self.enqueue(letter, due);
        true
    }

    /// Lets processes find each other: who did gets what the other has latched.
    pub fn join(&mut self, now: Duration) {
        for a in ProcessId::ALL {
            for b in ProcessId::ALL {
                let (i, j) = (a.index(), b.index());
                if self.joined[i][j] || !self.is_linked(a, b, now) {
                    continue;
                }
                self.joined[i][j] = true;
                if !(self.parties[i].alive && self.parties[j].alive) {
                    continue;
                }
                let from = self.address(a);
                let values: Vec<News> = self
                    .latched
                    .iter()
                    .filter(|((publisher, topic), _)| {
                        *publisher == a && topic.listeners().contains(&b)
                    })
                    .flat_map(|(_, kept)| kept.iter().cloned())
                    .collect();
                for news in values {
                    self.give(from, b, news, now);
                }
            }
        }
    }

    /// The next letter that has arrived at a process that still lives the life that it was sent to.
    pub fn arrived(&mut self, now: Duration) -> Option<Letter> {
        loop {
            let (key, _) = self.queue.first_key_value()?;
            if key.0 > now {
                return None;
            }
            let (_, letter) = self.queue.pop_first()?;
            let party = self.party(letter.to.process);
            if party.alive && party.life == letter.to.life {
                return Some(letter);
            }
            self.counts.lost += 1;
        }
    }

    /// A number from the network's own stream.
    pub fn draw(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, Purpose};
    use eh_contract::command::Beacon;

    fn network(conditions: Conditions, cuts: Vec<Cut>) -> (Network, Address, Address) {
        let rng = stream(1, Purpose::Network);
        let mut network = Network::new(rng, conditions, cuts, Duration::MAX);
        let a = network.begin(ProcessId::Harness, Duration::ZERO);
        let b = network.begin(ProcessId::Navigation, Duration::ZERO);
        network.join(ms(1000));
        (network, a, b)
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn beacon(tick: u64) -> News {
        News::Beacon(Beacon {
            executor: "/n".into(),
            boot_id: "b".into(),
            tick: ms(tick),
        })
    }

    fn all(network: &mut Network, now: Duration) -> usize {
        std::iter::from_fn(|| network.arrived(now)).count()
    }

    #[test]
    fn an_answer_never_reaches_the_next_life_of_who_asked() {
        let (mut network, a, b) = network(Conditions::GOOD, vec![]);
        assert!(network.reply(b, a, 1, Reply::Acknowledged(true), ms(1000)));
        network.end(ProcessId::Harness, ms(1001));
        network.begin(ProcessId::Harness, ms(1001));
        assert_eq!(all(&mut network, ms(5000)), 0);
        assert_eq!(network.counts().lost, 1);
    }

    #[test]
    fn a_cut_holds_back_what_is_reliable_and_keeps_its_order() {
        let cut = Cut {
            a: ProcessId::Navigation,
            b: ProcessId::Harness,
            from: ms(1000),
            until: ms(3000),
            loses: false,
        };
        let (mut network, a, b) = network(Conditions::GOOD, vec![cut]);
        for tick in 0..5 {
            network.publish(b, beacon(tick), ms(1000 + 100 * tick));
        }
        assert!(network.request(a, ProcessId::Navigation, 1, Request::ReadScene, ms(1500)));
        assert_eq!(all(&mut network, ms(3000)), 0);
        let mut ticks = Vec::new();
        while let Some(letter) = network.arrived(ms(4000)) {
            if let Body::News(News::Beacon(beacon)) = letter.body {
                ticks.push(beacon.tick);
            }
        }
        assert_eq!(ticks, [ms(0), ms(1), ms(2), ms(3), ms(4)]);
        let losing = Cut { loses: true, ..cut };
        let (mut network, a, _) = network_with(losing);
        assert!(!network.request(a, ProcessId::Navigation, 1, Request::ReadScene, ms(1500)));
    }

    fn network_with(cut: Cut) -> (Network, Address, Address) {
        network(Conditions::GOOD, vec![cut])
    }

    #[test]
    fn late_joiners_get_the_last_values_of_those_who_live() {
        let (mut network, _, b) = network(Conditions::GOOD, vec![]);
        let statuses = |n: u64| News::Statuses {
            executor: n.to_string(),
            statuses: std::sync::Arc::default(),
        };
        for n in 0..3 {
            network.publish(b, statuses(n), ms(1000));
        }
        assert_eq!(all(&mut network, ms(1100)), 3);
        network.end(ProcessId::Harness, ms(1200));
        network.begin(ProcessId::Harness, ms(1200));
        network.join(ms(1210));
        assert_eq!(all(&mut network, ms(1215)), 0, "not found yet");
        network.join(ms(2000));
        // Depth 1: the last one of three.
        assert_eq!(all(&mut network, ms(2100)), 1);
        network.end(ProcessId::Navigation, ms(2200));
        network.end(ProcessId::Harness, ms(2200));
        network.begin(ProcessId::Harness, ms(2200));
        network.join(ms(4000));
        assert_eq!(all(&mut network, ms(4100)), 0, "the writer took them along");
    }

    #[test]
    fn a_bad_network_loses_doubles_and_reorders() {
        let bad = Conditions {
            call_loss: 0.2,
            doubled: 0.2,
            delay: ms(200),
            ..Conditions::GOOD
        };
        let (mut network, a, _) = network(bad, vec![]);
        for n in 0..1000 {
            let request = Request::QueryCommand(String::new());
            network.request(a, ProcessId::Navigation, n, request, ms(1000 + n));
        }
        let counts = network.counts();
        // 1000 draws with 0.2: 200, with a standard deviation of 12.6; five of them.
        assert!((137..263).contains(&counts.lost), "{counts:?}");
        assert!(counts.doubled > 100 && counts.overtaken > 100, "{counts:?}");
        let calm = Network::new(stream(1, Purpose::Network), bad, vec![], Duration::ZERO);
        assert_eq!(calm.counts(), Counts::default());
    }
}
