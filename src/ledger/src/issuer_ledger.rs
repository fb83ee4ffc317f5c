//! All commands of one issuer by id, with what each of them holds.

use std::collections::BTreeMap;

use eh_contract::state::CommandState;

use crate::issuer::{Issue, IssuerRecord};
use crate::issuer_error::IssuerError;
use crate::issuer_event::{IssuerEffect, IssuerEvent};
use crate::issuer_policy::{IssuerPolicy, Now};

/// Commands by id.
#[derive(Clone, Debug, Default)]
pub struct IssuerLedger {
    records: BTreeMap<String, IssuerRecord>,
}

/// Who holds a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The resource.
    pub resource: String,
    /// The command that holds it.
    pub command_id: String,
    /// Its state.
    pub state: CommandState,
}

impl IssuerLedger {
    /// A ledger of stored records.
    pub fn restore(records: impl IntoIterator<Item = IssuerRecord>) -> Self {
        IssuerLedger {
            records: records
                .into_iter()
                .map(|r| (r.command_id().to_owned(), r))
                .collect(),
        }
    }

    /// Enters a proposed command.
    ///
    /// The same id with the same digest changes nothing and gives the state of the original: no deadline
    /// is refreshed and nothing is sent again.
    ///
    /// # Errors
    /// [`IssuerError::CommandIdConflict`] for the same id with another digest.
    pub fn propose(&mut self, issue: Issue, now: Now) -> Result<Proposed, IssuerError> {
        let record = IssuerRecord::new(issue, now);
        match self.records.get(record.command_id()) {
            None => {
                self.records.insert(record.command_id().to_owned(), record);
                Ok(Proposed::New)
            }
            Some(known) if known.digest == record.digest => Ok(Proposed::Known(known.state)),
            Some(known) => Err(IssuerError::CommandIdConflict {
                command_id: record.command_id().to_owned(),
                known: known.digest.clone(),
                given: record.digest,
            }),
        }
    }

    /// Applies an event to one command.
    ///
    /// # Errors
    /// [`IssuerError::NotFound`], or as [`IssuerRecord::apply`].
    pub fn apply(
        &mut self,
        command_id: &str,
        event: IssuerEvent,
        policy: &IssuerPolicy,
        now: Now,
    ) -> Result<Vec<IssuerEffect>, IssuerError> {
        match self.records.get_mut(command_id) {
            Some(record) => record.apply(event, policy, now),
            None => Err(IssuerError::NotFound {
                command_id: command_id.into(),
            }),
        }
    }

    /// Takes up every record after a restart; see [`IssuerRecord::resume`].
    pub fn resume(&mut self, now: Now) -> Vec<(String, IssuerEffect)> {
        self.records
            .values_mut()
            .flat_map(|r| {
                let id = r.command_id().to_owned();
                r.resume(now).into_iter().map(move |e| (id.clone(), e))
            })
            .collect()
    }

    /// One command.
    pub fn get(&self, command_id: &str) -> Option<&IssuerRecord> {
        self.records.get(command_id)
    }

    /// Every command in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &IssuerRecord> {
        self.records.values()
    }

    /// Commands that are not terminal.
    pub fn unsettled(&self) -> impl Iterator<Item = &IssuerRecord> {
        self.records.values().filter(|r| !r.state.is_terminal())
    }

    /// Commands that time can still change: not terminal, or not yet released by their executor.
    pub fn open(&self) -> impl Iterator<Item = &IssuerRecord> {
        self.records
            .values()
            .filter(|r| !r.state.is_terminal() || r.settle_pending.is_some())
    }

    /// Forgets terminal commands beyond the newest `keep`; their store has them still.
    pub fn forget_old(&mut self, keep: usize) {
        let mut ended: Vec<_> = self
            .records
            .values()
            .filter(|r| r.state.is_terminal() && r.settle_pending.is_none())
            .map(|r| (r.times.settled, r.command_id().to_owned()))
            .collect();
        if ended.len() <= keep {
            return;
        }
        ended.sort();
        let surplus = ended.len() - keep;
        for (_, id) in ended.into_iter().take(surplus) {
            self.records.remove(&id);
        }
    }

    /// Those of the wanted resources that a command holds, each with its holder.
    pub fn held<'a>(&'a self, wanted: &'a [String]) -> impl Iterator<Item = Held> + 'a {
        self.records
            .values()
            .filter(|r| r.holds_resources())
            .flat_map(move |r| {
                r.resources
                    .iter()
                    .filter(|resource| wanted.contains(resource))
                    .map(|resource| Held {
                        resource: resource.clone(),
                        command_id: r.command_id().to_owned(),
                        state: r.state,
                    })
            })
    }
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// It is entered.
    New,
    /// It is known, in this state.
    Known(CommandState),
}
