//! Recordings: what was observed of each run that was judged, so that it can be judged again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use eh_contract::Stamp;
use eh_evaluator::observation::{Observation, Recorded};
use eh_ros_edge::params::{integer, text};
use rclrs::{log_info, log_warn, Node};

use crate::Error;

/// Begin and end of the names of its files: nothing else in the folder is touched.
const PREFIX: &str = "observed_";
const SUFFIX: &str = ".jsonl";

/// Longest part of a run's id in a file's name.
const MAX_NAME: usize = 80;

/// Recordings that wait for the disk; more are left out.
const WAITING: usize = 4;

/// Longest time before a run's start that is recorded, for its baseline.
pub(crate) const LEAD: Duration = Duration::from_secs(30);

/// Where recordings go.
#[derive(Clone, Debug)]
pub struct RecorderParameters {
    /// The folder; empty: nothing is recorded.
    pub folder: String,
    /// Most files.
    pub files: usize,
}

impl RecorderParameters {
    /// Declares the parameters.
    ///
    /// # Errors
    /// [`enum@Error`] that names the parameter.
    pub(crate) fn declare(node: &Node) -> Result<Self, Error> {
        Ok(RecorderParameters {
            folder: text(
                node,
                "record_to",
                "",
                "Folder in which the observations of each run that is judged are kept, one file a segment, as observations: recorded reads them. Empty: none.",
            )?,
            files: usize::try_from(integer(
                node,
                "record_runs",
                50,
                1..=10_000,
                "",
                "Most such files; the oldest go first.",
            )?)
            .unwrap_or(1),
        })
    }
}

struct Take {
    run_id: String,
    segment: u32,
    observations: Vec<Observation>,
}

/// Writes recordings on a thread of its own, so that no verdict waits for a disk.
pub(crate) struct Recorder {
    takes: Option<SyncSender<Take>>,
    thread: Option<JoinHandle<()>>,
    node: Node,
}

impl Recorder {
    /// Begins, where a folder is given.
    ///
    /// # Errors
    /// [`Error::Recording`] when the folder can't be made.
    pub(crate) fn start(
        node: &Node,
        parameters: &RecorderParameters,
    ) -> Result<Option<Self>, Error> {
        if parameters.folder.is_empty() {
            return Ok(None);
        }
        let folder = PathBuf::from(&parameters.folder);
        fs::create_dir_all(&folder).map_err(|e| Error::RecordTo {
            path: parameters.folder.clone(),
            reason: e.to_string(),
        })?;
        let (takes, waiting) = sync_channel::<Take>(WAITING);
        let (told, files) = (node.clone(), parameters.files);
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || {
                for take in waiting {
                    match write(&folder, files, &take) {
                        Ok(path) => log_info!(
                            told.logger(),
                            "run {}: {} observations are in {}",
                            take.run_id,
                            take.observations.len(),
                            path.display()
                        ),
                        Err(error) => log_warn!(
                            told.logger(),
                            "run {} was not recorded in {}: {error}; correct record_to, or free the disk",
                            take.run_id,
                            folder.display()
                        ),
                    }
                }
            })?;
        Ok(Some(Recorder {
            takes: Some(takes),
            thread: Some(thread),
            node: node.clone(),
        }))
    }

    /// Takes what was observed of a run.
    pub(crate) fn take(&self, run_id: &str, segment: u32, observations: Vec<Observation>) {
        let take = Take {
            run_id: run_id.into(),
            segment,
            observations,
        };
        let taken = self
            .takes
            .as_ref()
            .is_some_and(|t| t.try_send(take).is_ok());
        if !taken {
            log_warn!(
                self.node.logger(),
                "run {run_id} was not recorded: {WAITING} others wait for the disk"
            );
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.takes = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}

/// Since when observations of a run are recorded.
pub(crate) fn since(started: Option<Stamp>, ended: Stamp) -> Stamp {
    let from = started.unwrap_or(ended).0;
    Stamp(from.saturating_sub(i64::try_from(LEAD.as_nanos()).unwrap_or(0)))
}

fn name_of(run_id: &str, segment: u32) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            c
        } else {
            '_'
        }
    };
    let id: String = run_id.chars().take(MAX_NAME).map(plain).collect();
    format!("{PREFIX}{id}_{segment}{SUFFIX}")
}

/// Writes a recording, whole or not at all, and takes the oldest away where there are too many.
fn write(folder: &Path, files: usize, take: &Take) -> io::Result<PathBuf> {
    let path = folder.join(name_of(&take.run_id, take.segment));
    let part = path.with_extension("part");
    fs::write(&part, Recorded::write(&take.observations))?;
    fs::rename(&part, &path)?;
    let ours = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    let mut all: Vec<_> = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .filter(ours)
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .filter(|(_, old)| *old != path)
        .collect();
    all.sort();
    let surplus = (all.len() + 1).saturating_sub(files);
    for (_, old) in all.into_iter().take(surplus) {
        fs::remove_file(old)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eh_evaluator::evidence::GripperSample;

    fn take(run_id: &str) -> Take {
        Take {
            run_id: run_id.into(),
            segment: 1,
            observations: vec![Observation::Gripper(GripperSample {
                stamp: Stamp(7),
                width: 0.1,
                effort: None,
            })],
        }
    }

    #[test]
    fn the_newest_are_kept_and_nothing_else_is_touched() {
        let folder = std::env::temp_dir().join(format!("eh_recorder_{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("notes.jsonl"), "mine").unwrap();
        for i in 0..5 {
            let path = write(&folder, 2, &take(&format!("r{i}"))).unwrap();
            // Stamps of files may be coarse.
            let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000 + i);
            fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        let mut left: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(
            left,
            ["notes.jsonl", "observed_r3_1.jsonl", "observed_r4_1.jsonl"]
        );
        let text = fs::read_to_string(folder.join(&left[2])).unwrap();
        assert!(Recorded::read(&text).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_id_leads_out_of_no_folder() {
        assert_eq!(name_of("../../etc/x", 0), "observed_______etc_x_0.jsonl");
        assert!(name_of(&"x".repeat(5000), 0).len() < 255);
    }

    #[test]
    fn a_run_whose_start_was_not_heard_is_recorded_from_before_its_end() {
        let lead = i64::try_from(LEAD.as_nanos()).unwrap();
        assert_eq!(since(Some(Stamp(lead + 5)), Stamp(lead + 9)), Stamp(5));
        assert_eq!(since(None, Stamp(lead + 9)), Stamp(9));
    }
}
