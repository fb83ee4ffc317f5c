//! What holds for any input.

use std::time::Duration;

use eh_contract::skill::DisconnectPolicy;
use eh_protection::authority::{DeclaredRun, LeaseState};
use eh_protection::footprint::{Footprint, Point};
use eh_protection::params::StopStrategy;
use eh_protection::path::rate;
use eh_protection::protection::TwistCommand;
use eh_protection::scan::Scan;
use eh_protection::{Mode, Params, Protection, Velocity};
use proptest::prelude::*;

const FRESH: Duration = Duration::ZERO;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn params(round: bool, hold: bool) -> Params {
    let footprint = if round {
        Footprint::circle(0.3)
    } else {
        Footprint::polygon(&[-0.4, -0.25, 0.4, -0.25, 0.4, 0.25, -0.4, 0.25])
    };
    let mut params = Params::for_footprint(footprint.unwrap());
    if hold {
        params.strategy = StopStrategy::Hold;
    }
    params
}

fn all_in_order(p: &mut Protection, now: Duration, points: &[(f64, f64)]) {
    let points = points.iter().map(|&(x, y)| Point::new(x, y)).collect();
    p.lease(LeaseState {
        alive: true,
        token: 1,
    });
    p.scan(now, FRESH, Scan::from_points(points));
    p.odom(now, FRESH, 0.0, 0.0);
    p.declared_run(
        now,
        DeclaredRun {
            executor: "nav".into(),
            boot_id: "b".into(),
            run_id: "r".into(),
            token: 1,
            policy: DisconnectPolicy::Stop,
            active: true,
        },
    );
}

/// Numbers as they come from outside: usual ones and every odd one.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => -1.5..1.5f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e300]),
    ]
}

fn surroundings() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((-2.0..2.0f64, -2.0..2.0f64), 0..30)
}

proptest! {
    /// Never above the limits, never above the command while it passes, never in another direction.
    #[test]
    fn the_output_never_exceeds_a_limit(
        round in any::<bool>(), hold in any::<bool>(),
        commands in prop::collection::vec((number(), number(), number()), 1..12),
        points in surroundings(),
    ) {
        let params = params(round, hold);
        let mut p = Protection::new(params.clone());
        let mut last = Velocity::ZERO;
        for (i, (x, y, turn)) in commands.into_iter().enumerate() {
            let now = ms(50 * i as u64);
            all_in_order(&mut p, now, &points);
            p.command(now, FRESH, TwistCommand::planar(Velocity::new(x, y, turn)));
            let d = p.decide(now);
            prop_assert!(d.output.is_finite());
            prop_assert!(d.output.linear() <= params.max_linear + 1e-9);
            prop_assert!(d.output.angular() <= params.max_angular + 1e-9);
            if d.mode >= Mode::Stop {
                prop_assert!(d.output.linear() <= last.linear() + 1e-12, "braking never speeds up");
                prop_assert!(d.output.angular() <= last.angular() + 1e-12);
            } else {
                prop_assert!(d.output.linear() <= d.input.linear() + 1e-12);
                prop_assert!(d.output.linear() <= d.speed_limit + 1e-6, "{d:?}");
                prop_assert!((d.output.x * d.input.y - d.output.y * d.input.x).abs() < 1e-9);
            }
            last = d.output;
        }
    }

    /// Whatever the state and the strategy: nothing in the stop zone ever comes closer by our output.
    #[test]
    fn nothing_in_the_stop_zone_comes_closer(
        round in any::<bool>(), hold in any::<bool>(),
        vx in -1.0..1.0f64, vy in -1.0..1.0f64, turn in -2.0..2.0f64,
        points in prop::collection::vec((-0.5..0.5f64, -0.5..0.5f64), 1..6),
        lease_dies in any::<bool>(),
    ) {
        let params = params(round, hold);
        let mut p = Protection::new(params.clone());
        // First at full speed in the open, then the points appear.
        for (now, seen) in [(ms(0), Vec::new()), (ms(50), points.clone())] {
            all_in_order(&mut p, now, &seen);
            p.command(now, FRESH, TwistCommand::planar(Velocity::new(vx, vy, turn)));
            if lease_dies && now > ms(0) {
                p.lease(LeaseState { alive: false, token: 1 });
            }
            let d = p.decide(now);
            for &(x, y) in &seen {
                let point = Point::new(x, y);
                if params.footprint.gap(point).distance <= params.stop_margin {
                    let rate = rate(&params.footprint, point, d.output);
                    prop_assert!(rate >= -1e-6, "({x}, {y}) comes closer by {rate} m/s: {d:?}");
                }
            }
        }
    }

    /// A command with any odd number moves nothing.
    #[test]
    fn any_odd_number_gives_zero(
        place in 0..6usize,
        odd in prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300]),
        usual in -1.0..1.0f64,
    ) {
        let mut p = Protection::new(params(true, false));
        all_in_order(&mut p, ms(0), &[]);
        let mut numbers = [usual, 0.0, 0.0, 0.0, 0.0, usual];
        numbers[place] = odd;
        let [a, b, c, d, e, f] = numbers;
        p.command(ms(0), FRESH, TwistCommand { linear: [a, b, c], angular: [d, e, f] });
        let d = p.decide(ms(0));
        prop_assert_eq!(d.output, Velocity::ZERO);
        prop_assert!(d.mode >= Mode::Stop);
    }

    /// Odd odometry, ages and times give no panic and no motion without a full set of fresh inputs.
    #[test]
    fn without_fresh_inputs_nothing_moves(
        times in prop::collection::vec(0..5000u64, 1..20),
        linear in number(), angular in number(), age in 0..5000u64,
    ) {
        let mut p = Protection::new(params(true, false));
        for t in times {
            p.odom(ms(t), ms(age), linear, angular);
            p.command(ms(t), FRESH, TwistCommand::planar(Velocity::new(1.0, 0.0, 0.0)));
            prop_assert_eq!(p.decide(ms(t)).output, Velocity::ZERO);
        }
    }

    /// In closed loop with a base that reacts late and brakes no better than it was measured to, driven
    /// straight at a wall at any speed and from any distance: the wall is never touched.
    #[test]
    fn a_base_driven_at_a_wall_stops_before_it(
        wall in 0.5..4.0f64, speed in 0.05..1.0f64, phase in 0..50u64,
    ) {
        let params = params(true, false);
        let braking = params.braking;
        let mut p = Protection::new(params);
        let (mut x, mut v) = (0.0_f64, 0.0_f64);
        let mut orders: Vec<(u64, f64)> = Vec::new();
        let mut seen_wall = wall;
        for t in 0..8000_u64 {
            // Scans at 20 Hz, commands and decisions at 50 Hz.
            if (t + phase) % 50 == 0 {
                seen_wall = wall - x;
                all_in_order(&mut p, ms(t), &[(seen_wall, 0.0)]);
            }
            if t % 20 == 0 {
                p.command(ms(t), FRESH, TwistCommand::planar(Velocity::new(speed, 0.0, 0.0)));
                orders.push((t, p.decide(ms(t)).output.x));
            }
            // Scan period, decision period and this drive delay make up the reaction time of 0.2 s.
            let delay = 130;
            let order = orders.iter().rev().find(|(at, _)| at + delay <= t).map_or(0.0, |o| o.1);
            v = if order < v { (v - braking.linear * 1e-3).max(order) } else { order };
            x += v * 1e-3;
            prop_assert!(x + 0.3 < wall, "touched after {t} ms, wall last seen at {seen_wall}");
        }
    }
}
