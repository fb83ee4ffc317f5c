//! A planar velocity.

/// Velocity of the base in its own frame (REP-103: x forward, y left, z up).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Velocity {
    /// Forward [m/s].
    pub x: f64,
    /// To the left [m/s].
    pub y: f64,
    /// Counter-clockwise [rad/s].
    pub turn: f64,
}

impl Velocity {
    /// Standstill.
    pub const ZERO: Velocity = Velocity {
        x: 0.0,
        y: 0.0,
        turn: 0.0,
    };

    /// Creates a velocity from m/s, m/s and rad/s.
    pub const fn new(x: f64, y: f64, turn: f64) -> Self {
        Velocity { x, y, turn }
    }

    /// Speed over the floor [m/s], never negative.
    pub fn linear(&self) -> f64 {
        self.x.hypot(self.y)
    }

    /// Turning rate without its sign [rad/s].
    pub fn angular(&self) -> f64 {
        self.turn.abs()
    }

    /// True when every part is a finite number.
    pub fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.turn.is_finite()
    }

    /// True when every part is exactly zero.
    pub fn is_zero(&self) -> bool {
        self.x == 0.0 && self.y == 0.0 && self.turn == 0.0
    }

    /// The same path driven slower: every part times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Velocity::new(self.x * factor, self.y * factor, self.turn * factor)
    }

    /// The velocity after braking for `seconds` with at most `linear` [m/s²] and `angular` [rad/s²].
    ///
    /// The direction stays, and no part changes its sign.
    #[must_use]
    pub fn braked(&self, seconds: f64, linear: f64, angular: f64) -> Self {
        let keep = |speed: f64, slowing: f64| {
            let left = speed - slowing * seconds;
            if speed > 0.0 && left > 0.0 {
                left / speed
            } else {
                0.0
            }
        };
        let floor = keep(self.linear(), linear);
        Velocity::new(
            self.x * floor,
            self.y * floor,
            self.turn * keep(self.angular(), angular),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braking_keeps_the_direction_and_ends_at_zero() {
        // 0.5 m/s less 1 m/s² for 0.1 s is 0.4 m/s: both parts keep 4/5 of theirs.
        let v = Velocity::new(0.3, 0.4, -1.0).braked(0.1, 1.0, 2.0);
        assert!((v.x - 0.24).abs() < 1e-12 && (v.y - 0.32).abs() < 1e-12);
        assert!((v.turn + 0.8).abs() < 1e-12);
        assert_eq!(v.braked(10.0, 1.0, 2.0), Velocity::ZERO);
        assert_eq!(Velocity::ZERO.braked(0.1, 1.0, 1.0), Velocity::ZERO);
    }
}
