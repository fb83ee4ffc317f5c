//! Disks that lose what was not synced, that are full for a while, or that can only be read.

use std::time::Duration;

/// Why something could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTrouble {
    /// No room is left.
    Full,
    /// It was mounted read-only.
    ReadOnly,
}

impl DiskTrouble {
    /// In words, as the stores say it.
    pub const fn words(self) -> &'static str {
        match self {
            DiskTrouble::Full => "the disk is full; free some space",
            DiskTrouble::ReadOnly => "the file can only be read; check the file system",
        }
    }
}

/// A time in which writing fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// From here on …
    pub from: Duration,
    /// … until here.
    pub until: Duration,
    /// What is the matter.
    pub trouble: DiskTrouble,
}

/// One process's file: a log of what was written, of which a crash leaves only what was synced.
#[derive(Clone, Debug)]
pub struct Disk<W> {
    durable: Vec<W>,
    buffered: Vec<W>,
    episodes: Vec<Episode>,
    /// How many of the last durable writes a crash takes away all the same: a disk that lies about its
    /// syncs. Zero but in tests of the world itself.
    forgets: usize,
    lost: u64,
}

impl<W> Default for Disk<W> {
    fn default() -> Self {
        Disk {
            durable: Vec::new(),
            buffered: Vec::new(),
            episodes: Vec::new(),
            forgets: 0,
            lost: 0,
        }
    }
}

impl<W> Disk<W> {
    /// Makes writing fail for a time.
    pub fn fail(&mut self, episode: Episode) {
        self.episodes.push(episode);
    }

    /// Makes it lie about its last writes.
    pub fn set_forgets(&mut self, forgets: usize) {
        self.forgets = forgets;
    }

    /// Why it can't be written at this time.
    pub fn trouble(&self, now: Duration) -> Option<DiskTrouble> {
        self.episodes
            .iter()
            .find(|e| (e.from..e.until).contains(&now))
            .map(|e| e.trouble)
    }

    /// Whether there was trouble at any time of the last `span`.
    pub fn was_troubled(&self, now: Duration, span: Duration) -> bool {
        let since = now.saturating_sub(span);
        self.episodes
            .iter()
            .any(|e| e.from <= now && e.until > since)
    }

    /// Writes without making durable.
    ///
    /// # Errors
    /// [`DiskTrouble`] during an episode; nothing was written then.
    pub fn write(&mut self, now: Duration, what: W) -> Result<(), DiskTrouble> {
        if let Some(trouble) = self.trouble(now) {
            return Err(trouble);
        }
        self.buffered.push(what);
        Ok(())
    }

    /// Makes durable what was written.
    pub fn sync(&mut self) {
        self.durable.append(&mut self.buffered);
    }

    /// Takes back what was written and not synced, as a transaction that is given up.
    pub fn roll_back(&mut self) {
        self.buffered.clear();
    }

    /// The process or the machine is gone: what was not synced is lost.
    pub fn crash(&mut self) {
        self.lost += self.buffered.len() as u64;
        self.buffered.clear();
        let keep = self.durable.len().saturating_sub(self.forgets);
        self.lost += (self.durable.len() - keep) as u64;
        self.durable.truncate(keep);
    }

    /// What survives.
    pub fn durable(&self) -> &[W] {
        &self.durable
    }

    /// Writes that were lost.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_takes_what_was_not_synced() {
        let mut disk = Disk::default();
        disk.write(Duration::ZERO, 1).unwrap();
        disk.sync();
        disk.write(Duration::ZERO, 2).unwrap();
        disk.crash();
        assert_eq!((disk.durable(), disk.lost()), (&[1][..], 1));
    }

    #[test]
    fn an_episode_refuses_writes_and_loses_nothing() {
        let mut disk = Disk::default();
        let s = Duration::from_secs;
        disk.fail(Episode {
            from: s(2),
            until: s(3),
            trouble: DiskTrouble::Full,
        });
        assert_eq!(disk.write(s(1), 1), Ok(()));
        assert_eq!(disk.write(s(2), 2), Err(DiskTrouble::Full));
        assert_eq!(disk.write(s(3), 3), Ok(()));
        disk.sync();
        assert_eq!(disk.durable(), [1, 3]);
    }

    #[test]
    fn a_lying_disk_loses_what_it_called_durable() {
        let mut disk = Disk::default();
        disk.set_forgets(1);
        for n in 0..3 {
            disk.write(Duration::ZERO, n).unwrap();
            disk.sync();
        }
        disk.crash();
        assert_eq!(disk.durable(), [0, 1]);
    }
}
