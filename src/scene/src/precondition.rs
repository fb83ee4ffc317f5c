//! Checks before a command starts, all at one version.

use std::time::Duration;

use eh_contract::belief::{self, CLOCK_TOLERANCE};
use eh_contract::command::Precondition;
use eh_contract::condition::{Condition, ROBOT};
use eh_contract::scene::Kind;
use eh_contract::verdict::Truth;
use eh_contract::Stamp;

use crate::effects::require;
use crate::error::SceneError;
use crate::excerpt::excerpt;
use crate::graph::SceneGraph;

/// Most preconditions of one request.
pub const MAX_PRECONDITIONS: usize = 256;

/// Checks preconditions in order.
///
/// # Errors
/// The first that fails: [`SceneError::RefNotFound`], [`SceneError::StalePrecondition`] (version, age or
/// place), [`SceneError::PredicateNotMet`] (false or not known), or what is malformed about it.
pub fn check(
    graph: &SceneGraph,
    preconditions: &[Precondition],
    now: Stamp,
) -> Result<(), SceneError> {
    if preconditions.len() > MAX_PRECONDITIONS {
        return Err(SceneError::InvalidRequest {
            reason: format!(
                "there are {} preconditions, the limit is {MAX_PRECONDITIONS}",
                preconditions.len()
            ),
        });
    }
    for (index, precondition) in preconditions.iter().enumerate() {
        check_object(graph, index, precondition, now)?;
        let condition = precondition.condition()?;
        if condition == Condition::always() {
            continue;
        }
        let names = condition.refs();
        let scene = excerpt(graph, names.iter().map(String::as_str));
        let belief = belief::evaluate(&condition, &scene, now);
        let reason = match belief.truth {
            Truth::True => continue,
            Truth::False => belief.explanation,
            Truth::Unknown => format!("not known: {}", belief.explanation),
        };
        return Err(SceneError::PredicateNotMet {
            index,
            name: label(precondition),
            reason,
        });
    }
    Ok(())
}

fn label(precondition: &Precondition) -> String {
    if precondition.r#ref.is_empty() {
        ROBOT.into()
    } else {
        precondition.r#ref.chars().take(64).collect()
    }
}

fn check_object(
    graph: &SceneGraph,
    index: usize,
    precondition: &Precondition,
    now: Stamp,
) -> Result<(), SceneError> {
    let name = label(precondition);
    if !(precondition.max_displacement.is_finite() && precondition.max_displacement >= 0.0) {
        return Err(SceneError::InvalidRequest {
            reason: format!(
                "max_displacement of precondition {index} is {}; it must be a finite number of at least 0 m",
                precondition.max_displacement
            ),
        });
    }
    // The robot itself is only asked for when something is asked about it.
    let asks = precondition.same_version
        || !precondition.max_age.is_zero()
        || precondition.max_displacement > 0.0
        || !precondition.r#ref.is_empty();
    if !asks {
        return Ok(());
    }
    let object = require(graph, &name)?;
    let stale = |reason: String| {
        Err(SceneError::StalePrecondition {
            index,
            name: name.clone(),
            reason,
        })
    };
    if precondition.same_version
        && precondition.version != 0
        && object.version != precondition.version
    {
        return stale(format!(
            "it was planned on version {}, now it has version {}",
            precondition.version, object.version
        ));
    }
    // The map needs no sight of furniture.
    let is_seen = matches!(object.kind, Kind::Object | Kind::Person);
    if !precondition.max_age.is_zero() && is_seen {
        if object.last_seen.is_never() {
            return stale("when it was seen is not known".into());
        }
        let ahead = object.last_seen.since(now);
        if ahead > Duration::from_millis((CLOCK_TOLERANCE * 1e3) as u64) {
            return stale(format!(
                "it was seen {:.1} s in the future; the clock was set back",
                ahead.as_secs_f64()
            ));
        }
        let age = now.since(object.last_seen);
        if age > precondition.max_age {
            return stale(format!(
                "it was seen {:.1} s ago, the limit is {:.1} s",
                age.as_secs_f64(),
                precondition.max_age.as_secs_f64()
            ));
        }
    }
    if precondition.max_displacement > 0.0 && precondition.version != 0 {
        match graph.pose_at(&name, precondition.version) {
            None => {
                return stale(format!(
                    "where it was at version {} is no longer known",
                    precondition.version
                ))
            }
            Some(then) => {
                let moved = then.position.distance(object.pose.position);
                if moved > precondition.max_displacement {
                    return stale(format!(
                        "it has moved by {moved:.2} m since, the limit is {:.2} m",
                        precondition.max_displacement
                    ));
                }
            }
        }
    }
    Ok(())
}
