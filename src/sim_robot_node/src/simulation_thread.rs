//! The thread that owns the simulation, and how others reach it.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use eh_ros_edge::Shutdown;
use eh_sim::{fleet, SimError};
use rclrs::{log_info, log_warn, ToLogParams};
use tokio::sync::oneshot;

use crate::pacer::Pacer;
use crate::simulation::Simulation;

/// What is to be done, and with which of the robots.
type Request = (usize, Box<dyn FnOnce(&mut Simulation) + Send>);

/// Reaches the simulation of one robot from other threads. Nothing here blocks.
#[derive(Clone)]
pub(crate) struct SimulationHandle {
    requests: Sender<Request>,
    robot: usize,
}

impl SimulationHandle {
    /// Has something done, as soon as possible, in the order of the calls.
    pub(crate) fn tell(&self, request: impl FnOnce(&mut Simulation) + Send + 'static) {
        // After the simulation's end nothing is left to be done.
        let _ = self.requests.send((self.robot, Box::new(request)));
    }

    /// Has something done and waits for what it returns; none when the simulation has ended.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Simulation) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.tell(move |simulation| {
            let _ = sender.send(request(simulation));
        });
        receiver.await.ok()
    }
}

/// The running thread.
pub(crate) struct SimulationThread {
    requests: Sender<Request>,
    robots: usize,
    thread: JoinHandle<Result<(), SimError>>,
}

impl SimulationThread {
    /// Starts the simulation. When its thread ends for whatever reason, the shutdown is asked for.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub(crate) fn start(
        simulations: Vec<Simulation>,
        step: Duration,
        pacer: Pacer,
        shutdown: &Shutdown,
    ) -> std::io::Result<Self> {
        let (requests, receiver) = channel();
        let robots = simulations.len();
        let end = RequestOnDrop(shutdown.clone());
        let thread = std::thread::Builder::new()
            .name("simulation".into())
            .spawn(move || {
                let _end = end;
                run(simulations, step, pacer, &receiver)
            })?;
        Ok(Self {
            requests,
            robots,
            thread,
        })
    }

    /// Reaches the simulation of one robot.
    pub(crate) fn handle(&self, robot: usize) -> SimulationHandle {
        SimulationHandle {
            requests: self.requests.clone(),
            robot,
        }
    }

    /// Stops the simulation and waits for its end.
    ///
    /// # Errors
    /// Why it had ended by itself.
    pub(crate) fn stop(self) -> Result<(), String> {
        for robot in 0..self.robots {
            self.handle(robot).tell(Simulation::stop);
        }
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("its thread panicked".into()),
        }
    }
}

struct RequestOnDrop(Shutdown);

impl Drop for RequestOnDrop {
    fn drop(&mut self) {
        self.0.request();
    }
}

fn perform((robot, request): Request, simulations: &mut [Simulation]) {
    if let Some(simulation) = simulations.get_mut(robot) {
        request(simulation);
    }
}

/// Longest time between two looks while simulated time stands still.
const HELD: Duration = Duration::from_millis(2);

/// Whether simulated time has got ahead of somebody who lives by it.
fn is_ahead(simulations: &[Simulation]) -> bool {
    simulations.iter().any(|simulation| {
        let behind = simulation
            .participants
            .behind(simulation.robot.now(), Instant::now());
        if let Some(name) = behind {
            log_info!(
                simulation.node.logger().throttle(Duration::from_secs(30)),
                "simulated time waits for {name}: this machine is too slow for the real_time_factor"
            );
        }
        behind.is_some()
    })
}

fn run(
    mut simulations: Vec<Simulation>,
    step: Duration,
    mut pacer: Pacer,
    requests: &Receiver<Request>,
) -> Result<(), SimError> {
    let start = Instant::now();
    while simulations.iter().any(|simulation| !simulation.stopped) {
        if is_ahead(&simulations) {
            pacer.hold(start.elapsed());
            match requests.recv_timeout(HELD) {
                Ok(request) => perform(request, &mut simulations),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            continue;
        }
        let (steps, left_out) = pacer.take(start.elapsed());
        if let Some(first) = simulations.first().filter(|_| !left_out.is_zero()) {
            log_warn!(
                first.node.logger().throttle(Duration::from_secs(10)),
                "the simulation can't follow: {:.2} s left out; use a faster machine, fewer \
                 scan beams or lower rates",
                left_out.as_secs_f64()
            );
        }
        for _ in 0..steps {
            fleet::step(&mut simulations, |s| &mut s.robot, |s| s.step(step))?;
            // A command must not wait until all that was missed is made up for.
            while let Ok(request) = requests.try_recv() {
                perform(request, &mut simulations);
            }
        }
        match requests.recv_timeout(pacer.wait(start.elapsed())) {
            Ok(request) => perform(request, &mut simulations),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
    Ok(())
}
