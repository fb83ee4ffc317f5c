//! Times from a committed command to the acceptance of its goal by a foreign server, beside those of a bare
//! goal to the same server. `scripts/bench dispatch` runs it with everything else that it needs.
//!
//! ```text
//! dispatch_time serve                            serves navigate_to_pose: takes each goal, ends it at once
//! dispatch_time measure DIRECTORY GOALS          prints one line for each time: what it was, and how long [ns]
//! ```
//!
//! `bare` is a goal that rclrs' own action client sends, `ours` a command that an issuer has committed: its
//! dispatch is made durable, it is sent to `navigation_skills_node`, made durable there, and so is the UUID of
//! the goal for the server. Both begin in the same process and end with the stamp that the server gives the goal
//! when it takes it; `answer` is the bare goal until its acknowledgement has come. `sync` is a bare write of 4 KiB
//! with fdatasync. They take turns.

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use eh_contract::command::{Envelope, SkillCommand};
use eh_contract::Stamp;
use eh_ledger::issuer::Issue;
use eh_ledger::issuer_event::IssuerEvent;
use eh_ledger::issuer_ledger::IssuerLedger;
use eh_ledger::issuer_policy::{IssuerPolicy, Now};
use eh_ros_edge::convert::command;
use eh_ros_edge::{
    qos, serve_action, spin_until, within, GoalClient, GoalDecision, GoalEnd, Shutdown,
};
use eh_store::HarnessStore;
use rclrs::{
    ActionClient, Client, Context, CreateBasicExecutor, IntoPrimitiveOptions, Node, Promise,
};
use ros_env::action_msgs::msg::GoalStatusArray;
use ros_env::embodied_harness::action::{ExecuteSkill, ExecuteSkill_Goal};
use ros_env::embodied_harness::msg::{ControlLease, ExecutorBeacon};
use ros_env::embodied_harness::srv::{
    SettleCommand, SettleCommand_Request, SettleCommand_Response,
};
use ros_env::nav2_msgs::action::{NavigateToPose, NavigateToPose_Goal, NavigateToPose_Result};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

const SERVER: &str = "navigate_to_pose";
const EXECUTOR: &str = "navigation_skills_node";
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer that has not come within this time is taken for lost, so often in a row at the most.
const ANSWER: Duration = Duration::from_secs(1);
const TRIES: u32 = 5;
/// Goals of each kind before those that are printed.
const WARM: usize = 10;
/// Size of one bare write \[bytes\], and how many of them the file has.
const PAGE: usize = 4096;
const PAGES: u64 = 1000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dispatch_time: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut executor = Context::default_from_env()?.create_basic_executor();
    let shutdown = Shutdown::on_signals()?;
    match arguments {
        [mode] if mode == "serve" => {
            let node = executor.create_node("dispatch_time_server")?;
            let _serving = serve_action::<NavigateToPose, _, _, _>(
                &node,
                SERVER,
                |_, _| GoalDecision::Accept,
                |_| async { GoalEnd::Succeeded(NavigateToPose_Result::default()) },
            )?;
            Ok(spin_until(&mut executor, &shutdown)?)
        }
        [mode, directory, goals] if mode == "measure" => {
            let node = executor.create_node("dispatch_time")?;
            let goals: usize = goals.parse()?;
            let meter = Meter::new(&node, Path::new(directory))?;
            let done = shutdown.clone();
            let (tell, told) = std::sync::mpsc::channel();
            drop(node.commands().run(async move {
                // Whoever waits has ended if nobody takes it.
                let _ = tell.send(meter.run(goals).await);
                done.request();
            }));
            spin_until(&mut executor, &shutdown)?;
            told.try_recv()?
        }
        _ => Err("give serve, or measure DIRECTORY GOALS".into()),
    }
}

/// What the server says of its goals: their ids and when they were taken \[ns\].
type Taken = Vec<([u8; 16], i64)>;

struct Meter {
    bare: ActionClient<NavigateToPose>,
    skill: GoalClient<ExecuteSkill>,
    settle: Client<SettleCommand>,
    taken: watch::Receiver<Taken>,
    lease: watch::Receiver<Option<ControlLease>>,
    beacon: watch::Receiver<Option<ExecutorBeacon>>,
    store: HarnessStore,
    ledger: IssuerLedger,
    file: File,
    began: Instant,
    _handles: Vec<Box<dyn Any + Send>>,
}

/// Waits for something, and says for what when it does not come.
async fn wait<T>(what: &str, event: impl std::future::Future<Output = T>) -> Result<T, Failure> {
    within(PATIENCE, event)
        .await
        .map_err(|missed| format!("{what}: {missed}").into())
}

fn wall_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

impl Meter {
    fn new(node: &Node, directory: &Path) -> Result<Self, Failure> {
        let (tell_taken, taken) = watch::channel(Taken::new());
        let (tell_lease, lease) = watch::channel(None);
        let (tell_beacon, beacon) = watch::channel(None);
        let of_goals = format!("{SERVER}/_action/status");
        let statuses = node.create_subscription(
            of_goals.as_str().qos(qos::action_status()),
            move |message: GoalStatusArray| {
                let goals = message.status_list.iter().map(|s| &s.goal_info);
                tell_taken.send_replace(
                    goals
                        .map(|goal| (goal.goal_id.uuid, command::stamp(&goal.stamp).0))
                        .collect(),
                );
            },
        )?;
        let leases = node.create_subscription(
            "control_lease".qos(qos::state_latched(1)),
            move |message: ControlLease| {
                tell_lease.send_replace(Some(message));
            },
        )?;
        let beacons = node.create_subscription(
            "executor_beacon".qos(qos::telemetry()),
            move |message: ExecutorBeacon| {
                tell_beacon.send_replace(Some(message));
            },
        )?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(directory.join("bare"))?;
        for page in 0..PAGES {
            file.write_all_at(&[1; PAGE], page * PAGE as u64)?;
        }
        file.sync_all()?;
        Ok(Meter {
            bare: node.create_action_client(SERVER)?,
            skill: GoalClient::new(node, &format!("{EXECUTOR}/execute_skill"))?,
            settle: node.create_client(format!("{EXECUTOR}/settle").as_str())?,
            taken,
            lease,
            beacon,
            store: HarnessStore::open(&directory.join("issuer.sqlite"))?,
            ledger: IssuerLedger::restore([]),
            file,
            began: Instant::now(),
            _handles: vec![Box::new(statuses), Box::new(leases), Box::new(beacons)],
        })
    }

    async fn run(mut self, goals: usize) -> Result<(), Failure> {
        wait("the server", self.bare.notify_on_server_ready()).await??;
        self.skill.wait_for_server(PATIENCE).await?;
        wait("settle", self.settle.notify_on_service_ready()).await??;
        drop(wait("the lease", self.lease.wait_for(Option::is_some)).await??);
        drop(wait("a beacon", self.beacon.wait_for(Option::is_some)).await??);
        self.answers_come().await?;
        for n in 0..goals + WARM {
            for k in 0..3 {
                let lines = match (n + k) % 3 {
                    0 => vec![("sync", self.sync(n as u64)?)],
                    1 => self.bare().await?,
                    _ => vec![("ours", self.ours(n).await?)],
                };
                for (what, time) in lines.iter().filter(|_| n >= WARM) {
                    println!("{what}\t{time}");
                }
            }
        }
        Ok(())
    }

    /// Asks until both have answered: right after discovery an answer can be lost.
    async fn answers_come(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let (mut server, mut executor) = (false, false);
        while !(server && executor) {
            if began.elapsed() > PATIENCE {
                return Err("the server or the executor does not answer".into());
            }
            let goal = self.bare.request_goal(NavigateToPose_Goal::default());
            server |= within(ANSWER, goal).await.is_ok();
            let nobody = self.settle_of("nobody".into(), String::new(), 0)?;
            executor |= within(ANSWER, nobody).await.is_ok();
        }
        Ok(())
    }

    fn settle_of(
        &self,
        command_id: String,
        settled_by: String,
        fencing_token: u64,
    ) -> Result<Promise<SettleCommand_Response>, Failure> {
        Ok(self.settle.call(SettleCommand_Request {
            command_id,
            final_state: SettleCommand_Request::FINAL_SUCCEEDED,
            settled_by,
            reason: String::new(),
            fencing_token,
        })?)
    }

    fn sync(&self, n: u64) -> Result<i64, Failure> {
        let began = Instant::now();
        let at = n % PAGES * PAGE as u64;
        self.file.write_all_at(&[2; PAGE], at)?;
        self.file.sync_data()?;
        Ok(i64::try_from(began.elapsed().as_nanos())?)
    }

    /// When the server took a goal \[ns\], as soon as it tells.
    async fn taken_at(&mut self, is: impl Fn(&[u8; 16]) -> bool) -> Result<i64, Failure> {
        let find = |list: &Taken| list.iter().find(|(id, _)| is(id)).map(|(_, at)| *at);
        let list = wait(
            "the goal's status",
            self.taken.wait_for(|list| find(list).is_some()),
        )
        .await??;
        find(&list).ok_or_else(|| "the server does not know the goal any more".into())
    }

    /// One goal by rclrs' own action client. Its acknowledgement is lost now and then: the client notes what it
    /// has asked for after it has asked, and drops an answer that is faster than the note. Then another goal is
    /// sent.
    async fn bare(&mut self) -> Result<Vec<(&'static str, i64)>, Failure> {
        for _ in 0..TRIES {
            let began = wall_ns();
            let requested = self.bare.request_goal(NavigateToPose_Goal::default());
            let id = **requested.goal_id();
            let Ok(goal) = within(ANSWER, requested).await else {
                continue;
            };
            let goal = goal.ok_or("the bare goal was rejected")?;
            let answered = wall_ns();
            let at = self.taken_at(|known| *known == id).await?;
            // The same may befall the result, which is not measured.
            drop(within(ANSWER, goal.result).await);
            return Ok(vec![("bare", at - began), ("answer", answered - began)]);
        }
        Err(format!("{TRIES} bare goals were not acknowledged").into())
    }

    fn now(&self) -> Now {
        Now {
            steady: self.began.elapsed(),
            ros: Stamp(wall_ns()),
        }
    }

    /// Applies an event and makes what came of it durable.
    fn apply(&mut self, id: &str, event: IssuerEvent) -> Result<(), Failure> {
        let now = self.now();
        self.ledger
            .apply(id, event, &IssuerPolicy::default(), now)?;
        let record = self.ledger.get(id).ok_or("the command is gone")?;
        Ok(self.store.save_command(record)?)
    }

    async fn ours(&mut self, n: usize) -> Result<i64, Failure> {
        let before: Vec<[u8; 16]> = self.taken.borrow().iter().map(|(id, _)| *id).collect();
        let goal_id = Uuid::new_v4();
        let id = format!("dispatch-{n}-{goal_id}");
        let pose = json!({"pose": {"frame_id": "map", "x": 1.0, "y": 0.0, "yaw": 0.0}});
        let command = SkillCommand {
            schema_version: 1,
            command_id: id.clone(),
            task_id: "dispatch_time".into(),
            robot_id: "robot".into(),
            skill: "navigate_to_pose".into(),
            skill_version: "1.0.0".into(),
            arguments: pose.as_object().cloned().unwrap_or_default(),
            targets: vec![],
            preconditions: vec![],
            world_version: 0,
            plan_version: 1,
            start_within: Duration::from_secs(5),
            execution_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(3),
            max_segments: 0,
        };
        let lease = self.lease.borrow().clone().ok_or("there is no lease")?;
        let beacon = self.beacon.borrow().as_ref().and_then(command::beacon);
        let executor = beacon.clone().ok_or("there is no beacon")?;
        let issue = Issue {
            command: command.clone(),
            action_name: self.skill.action().into(),
            executor: executor.executor,
            boot_id: executor.boot_id,
            resources: vec!["base".into()],
            evaluated: false,
            max_segments: 0,
            maximum_duration: Duration::from_secs(60),
        };
        let now = self.now();
        self.ledger.propose(issue, now)?;
        self.apply(&id, IssuerEvent::Commit)?;

        // It is committed: from here on.
        let began = wall_ns();
        let goal_id_bytes = goal_id.into_bytes();
        self.apply(
            &id,
            IssuerEvent::Dispatch {
                goal_id: goal_id_bytes,
            },
        )?;
        let envelope = Envelope {
            fencing_token: lease.token,
            controller_id: lease.controller_id.clone(),
            start_within: command.start_within,
            beacon,
        };
        let goal = ExecuteSkill_Goal {
            command: command::command_msg(&command),
            envelope: command::envelope_msg(&envelope),
            segment: 0,
        };
        self.skill.send_goal(goal_id, goal, PATIENCE).await?;
        let end = self.skill.result(goal_id, PATIENCE).await?;
        if end.result.error_code != 0 {
            return Err(end.result.error_msg.into());
        }
        let at = self.taken_at(|id| !before.contains(id)).await?;
        let answer = self.settle_of(id, lease.controller_id, lease.token)?;
        let answer = wait("the answer of settle", answer).await??;
        if answer.error_code != 0 {
            return Err(answer.error_msg.into());
        }
        Ok(at - began)
    }
}
