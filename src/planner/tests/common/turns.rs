//! How a turn ended.

use eh_contract::ErrorCode;
use eh_planner::Turn;

#[track_caller]
pub fn done(turn: &Turn) -> &str {
    match turn {
        Turn::Done { summary } => summary,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn failed(turn: &Turn) -> (ErrorCode, &str) {
    match turn {
        Turn::Fail { code, message } => (*code, message),
        other => panic!("{other:?}"),
    }
}
