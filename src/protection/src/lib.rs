//! Local protection between whoever commands a base and the base: plain data and times in, a velocity that
//! is safe to give out and the reason for it.
//!
//! This is no certified safety system: it runs on an ordinary operating system and trusts its sensors.
//!
//! | module | what it holds |
//! |---|---|
//! | [`protection`] | the decision; the most restrictive finding wins |
//! | [`decision`] | modes, reasons and the decision as data |
//! | [`params`] | what a robot's protection is set to |
//! | [`footprint`] | outline of the robot, distances to it |
//! | [`scan`] | a laser scan as points |
//! | [`path`] | how far a velocity leads before something enters the stop zone |
//! | [`speed_limit`] | how fast is slow enough to stop in time |
//! | [`standstill`] | whether the base stands, by measurement |
//! | [`stop`] | the latched stop and its stages |
//! | [`kept_stop`] | what of it survives a restart |
//! | [`authority`] | lease and declared runs |
//! | [`lease`] | the control lease |
//!
//! Units are SI, the frame is the robot's base frame (REP-103, REP-105). Times are on a steady clock of the
//! caller.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod authority;
pub mod decision;
pub mod footprint;
pub mod kept_stop;
pub mod lease;
pub mod params;
pub mod path;
pub mod protection;
pub mod scan;
pub mod speed_limit;
pub mod standstill;
pub mod stop;
pub mod velocity;

pub use decision::{Decision, Mode, Reason};
pub use params::Params;
pub use protection::Protection;
pub use velocity::Velocity;
