//! The wheeled base: differential drive with a first-order lag, limits, a watchdog and collisions.

use std::time::Duration;

use crate::error::{finite, SimError};
use crate::geometry::{wrap_angle, Pose2};
use crate::world::World;
use crate::world_file::RobotSpec;

/// Room at which a contact counts as over, metres.
const CONTACT_OVER: f64 = 0.02;

/// A velocity of the base: m/s forward and rad/s counter-clockwise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Velocity {
    /// Forward, m/s.
    pub linear: f64,
    /// Counter-clockwise, rad/s.
    pub angular: f64,
}

impl Velocity {
    /// Standstill.
    pub const ZERO: Self = Self {
        linear: 0.0,
        angular: 0.0,
    };

    /// The velocity from its parts.
    #[must_use]
    pub const fn new(linear: f64, angular: f64) -> Self {
        Self { linear, angular }
    }
}

/// What one step did to the base.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BaseMotion {
    /// How far the wheels turned it forward, metres.
    pub distance: f64,
    /// How far it turned, radians.
    pub turn: f64,
    /// Whether a new contact began.
    pub collided: bool,
}

/// The base as it truly is.
#[derive(Debug, Clone)]
pub struct Base {
    pose: Pose2,
    velocity: Velocity,
    command: Velocity,
    commanded_at: Option<Duration>,
    timed_out: bool,
    in_contact: bool,
    collisions: u64,
    limits: RobotSpec,
}

impl Base {
    /// A base that stands at its start.
    #[must_use]
    pub fn new(spec: &RobotSpec) -> Self {
        Self {
            pose: Pose2::new(spec.start[0], spec.start[1], wrap_angle(spec.start[2])),
            velocity: Velocity::ZERO,
            command: Velocity::ZERO,
            commanded_at: None,
            timed_out: false,
            in_contact: false,
            collisions: 0,
            limits: spec.clone(),
        }
    }

    /// Takes a command; it holds until the next or until the watchdog's time is over.
    ///
    /// Values beyond the base's limits are cut to them.
    ///
    /// # Errors
    /// [`SimError::NotFinite`]: the command is refused and the base is told to stop.
    pub fn set_command(&mut self, command: Velocity, now: Duration) -> Result<(), SimError> {
        let checked = finite("the linear velocity", command.linear)
            .and(finite("the angular velocity", command.angular));
        if let Err(error) = checked {
            self.command = Velocity::ZERO;
            return Err(error);
        }
        let l = &self.limits;
        self.command = Velocity::new(
            command.linear.clamp(-l.max_speed, l.max_speed),
            command.angular.clamp(-l.max_turn, l.max_turn),
        );
        self.commanded_at = Some(now);
        self.timed_out = false;
        Ok(())
    }

    /// Moves on by `dt` seconds up to the time `now`.
    ///
    /// `stuck`: the wheels turn but the base does not move.
    pub fn step(&mut self, dt: f64, now: Duration, world: &World, stuck: bool) -> BaseMotion {
        let fresh = self.commanded_at.is_some_and(|at| {
            now.saturating_sub(at) <= Duration::from_secs_f64(self.limits.cmd_timeout)
        });
        if !fresh && self.commanded_at.is_some() && !self.timed_out {
            self.timed_out = true;
            self.command = Velocity::ZERO;
        }
        let l = &self.limits;
        self.velocity = Velocity::new(
            approach(
                self.velocity.linear,
                self.command.linear,
                dt,
                l.actuator_lag,
                l.acceleration,
                l.deceleration,
            ),
            approach(
                self.velocity.angular,
                self.command.angular,
                dt,
                l.actuator_lag,
                l.turn_acceleration,
                l.turn_acceleration,
            ),
        );
        let (distance, turn) = (self.velocity.linear * dt, self.velocity.angular * dt);
        if stuck {
            return BaseMotion {
                distance,
                turn,
                collided: false,
            };
        }
        let next = arc(self.pose, distance, turn);
        let free = world.clearance(next.x, next.y) - l.radius;
        // Touching already is no reason to stay for ever: moving away is allowed.
        let blocked = free < 0.0 && free <= world.clearance(self.pose.x, self.pose.y) - l.radius;
        if blocked && distance != 0.0 {
            self.velocity.linear = 0.0;
            self.pose.yaw = next.yaw;
            let collided = !self.in_contact;
            self.in_contact = true;
            if collided {
                self.collisions += 1;
            }
            return BaseMotion {
                distance: 0.0,
                turn,
                collided,
            };
        }
        // A contact is over when there is room again: pushing on is no new one.
        if free > CONTACT_OVER {
            self.in_contact = false;
        }
        self.pose = next;
        BaseMotion {
            distance,
            turn,
            collided: false,
        }
    }

    /// Where the base truly is, map frame.
    #[must_use]
    pub fn pose(&self) -> Pose2 {
        self.pose
    }

    /// How the wheels truly move.
    #[must_use]
    pub fn velocity(&self) -> Velocity {
        self.velocity
    }

    /// The command that is in force.
    #[must_use]
    pub fn command(&self) -> Velocity {
        self.command
    }

    /// Whether the watchdog stopped the base because commands ceased.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Number of contacts that began so far.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        self.collisions
    }
}

/// First-order lag towards the command, with bounded acceleration.
fn approach(now: f64, wanted: f64, dt: f64, lag: f64, speed_up: f64, slow_down: f64) -> f64 {
    let share = if lag > 0.0 {
        1.0 - (-dt / lag).exp()
    } else {
        1.0
    };
    let change = (wanted - now) * share;
    let slowing = now * change < 0.0;
    let limit = dt * if slowing { slow_down } else { speed_up };
    let next = now + change.clamp(-limit, limit);
    // A lag never quite arrives: below 0.1 mm/s or mrad/s it has.
    if (next - wanted).abs() < 1e-4 {
        wanted
    } else {
        next
    }
}

/// The pose after driving an arc of the given length and turn.
pub(crate) fn arc(pose: Pose2, distance: f64, turn: f64) -> Pose2 {
    // The chord of an arc of length s and angle t is s·sin(t/2)/(t/2), at half the turn.
    let half = turn / 2.0;
    let chord = if half.abs() < 1e-9 {
        distance
    } else {
        distance * half.sin() / half
    };
    let direction = pose.yaw + half;
    Pose2::new(
        pose.x + chord * direction.cos(),
        pose.y + chord * direction.sin(),
        wrap_angle(pose.yaw + turn),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::world_file::WorldFile;

    const ROOM: &str = "
rooms: [{id: a, rect: [0, 0, 10, 10]}]
walls: [{from: [0, 0], to: [10, 0]}, {from: [10, 0], to: [10, 10]},
        {from: [10, 10], to: [0, 10]}, {from: [0, 10], to: [0, 0]}]
robot: {start: [5, 5, 0], acceleration: 20, deceleration: 20, actuator_lag: 0.1, cmd_timeout: 0.5}
";

    fn room() -> (World, Base) {
        let file = WorldFile::from_yaml(ROOM).unwrap();
        (World::new(&file).unwrap(), Base::new(&file.robot))
    }

    fn run(base: &mut Base, world: &World, from_ms: u64, steps: u64) {
        for k in 1..=steps {
            base.step(0.01, Duration::from_millis(from_ms + 10 * k), world, false);
        }
    }

    #[test]
    fn speed_follows_the_lag_analytically() {
        let (world, mut base) = room();
        base.set_command(Velocity::new(0.8, 0.0), Duration::ZERO)
            .unwrap();
        run(&mut base, &world, 0, 10);
        // v(t) = v₀·(1 − e^(−t/τ)): after one time constant 0.8·(1 − e⁻¹) = 0.50570; the exponential
        // step is exact whatever dt is. The acceleration limit of 20 m/s² is above 0.8/0.1 = 8.
        assert!((base.velocity().linear - 0.8 * (1.0 - (-1.0_f64).exp())).abs() < 1e-9);
    }

    #[test]
    fn the_watchdog_stops_the_base_when_commands_cease() {
        let (world, mut base) = room();
        base.set_command(Velocity::new(0.5, 0.0), Duration::ZERO)
            .unwrap();
        run(&mut base, &world, 0, 50);
        assert!(!base.timed_out() && base.velocity().linear > 0.49);
        // Time-out after 0.5 s; then 0.5·e^(−t/0.1) < 1e-4 after 0.85 s.
        run(&mut base, &world, 500, 100);
        assert!(base.timed_out());
        assert_eq!(base.velocity(), Velocity::ZERO);
    }

    #[test]
    fn not_a_number_is_refused_and_stops() {
        let (world, mut base) = room();
        base.set_command(Velocity::new(0.5, 0.0), Duration::ZERO)
            .unwrap();
        run(&mut base, &world, 0, 20);
        assert!(base
            .set_command(Velocity::new(f64::NAN, 0.0), Duration::from_millis(200))
            .is_err());
        assert!(base
            .set_command(
                Velocity::new(0.0, f64::INFINITY),
                Duration::from_millis(200)
            )
            .is_err());
        assert_eq!(base.command(), Velocity::ZERO);
        run(&mut base, &world, 200, 100);
        assert_eq!(base.velocity(), Velocity::ZERO);
    }

    #[test]
    fn a_wall_stops_the_base_and_is_counted_once() {
        let (world, mut base) = room();
        for k in 0..1000_u64 {
            let now = Duration::from_millis(10 * k);
            base.set_command(Velocity::new(1.0, 0.0), now).unwrap();
            base.step(0.01, now, &world, false);
        }
        assert_eq!(base.collisions(), 1);
        // The wall's face is at 9.95, the radius 0.27, one step of 1 m/s 0.01.
        let x = base.pose().x;
        assert!(x <= 9.68 && x > 9.66, "{x}");
        // It can back off.
        for k in 1000..1100_u64 {
            let now = Duration::from_millis(10 * k);
            base.set_command(Velocity::new(-0.5, 0.0), now).unwrap();
            base.step(0.01, now, &world, false);
        }
        assert!(base.pose().x < 9.4);
    }

    #[test]
    fn a_full_circle_closes() {
        // 2π at 1 rad/s and 0.5 m/s is a circle of radius 0.5.
        let mut p = Pose2::default();
        for _ in 0..1000 {
            p = arc(
                p,
                0.5 * std::f64::consts::TAU / 1000.0,
                std::f64::consts::TAU / 1000.0,
            );
        }
        assert!(p.x.abs() < 1e-9 && p.y.abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn speed_never_exceeds_the_limits(v in -1e9..1e9, w in -1e9..1e9) {
            let (world, mut base) = room();
            base.set_command(Velocity::new(v, w), Duration::ZERO).unwrap();
            run(&mut base, &world, 0, 40);
            prop_assert!(base.velocity().linear.abs() <= 1.0 + 1e-9);
            prop_assert!(base.velocity().angular.abs() <= 1.8 + 1e-9);
        }
    }
}
