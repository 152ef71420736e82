//! The quarantine as this silo sees it: what it reads from the store, and what it reports to it.
//!
//! A death is reported by the silo itself when it starts again, and by every silo of the same data directory that sees
//! it dead, before that silo lets the dead one's grains start elsewhere. So the component is in quarantine before a
//! third silo can run it. [`Quarantine::why`] is asked before each turn and never waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use granary_core::id::Digest;
use granary_core::membership::table::CasOutcome;
use granary_core::quarantine::{Death, QuarantineTable, Quarantined};
use granary_store::{QuarantineStore, StoreError};

use super::fault;

/// How often a conflicting write is tried again.
const CAS_ATTEMPTS_MAX: u32 = 16;

/// How long a new view waits for what the dead silos left: a store that is down must not hold views back.
const WITNESS_TIMEOUT: Duration = Duration::from_secs(2);

/// The quarantine, read and reported.
pub(super) struct Quarantine {
    store: Arc<dyn QuarantineStore>,
    /// The data directory, where silos leave their last words.
    data: PathBuf,
    current: ArcSwap<(u64, QuarantineTable)>,
    /// Whether anything is in quarantine: almost never.
    any: AtomicBool,
}

impl std::fmt::Debug for Quarantine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quarantine").field("current", &self.current.load()).finish_non_exhaustive()
    }
}

impl Quarantine {
    pub(super) fn new(store: Arc<dyn QuarantineStore>, data: PathBuf) -> Self {
        Self { store, data, current: ArcSwap::default(), any: AtomicBool::new(false) }
    }

    /// Reads the table; returns its version.
    pub(super) async fn refresh(&self) -> Result<u64, StoreError> {
        let (version, table) = self.store.read().await?;
        self.keep(version, table);
        Ok(version)
    }

    /// Keeps what was read, unless something newer is there.
    fn keep(&self, version: u64, table: QuarantineTable) {
        let read = Arc::new((version, table));
        self.current.rcu(|current| if current.0 > version { Arc::clone(current) } else { Arc::clone(&read) });
        self.any.store(!self.current.load().1.quarantined.is_empty(), Ordering::Release);
    }

    /// Why a component does not run, since when, and what to do; `None` when it may run.
    pub(super) fn why(&self, digest: &Digest) -> Option<String> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.current.load().1.find(digest).map(text)
    }

    /// How many components are in quarantine.
    pub(super) fn count(&self) -> usize {
        self.current.load().1.quarantined.len()
    }

    /// Reports what the last run of this very silo left, if it ended by a fault.
    pub(super) async fn report_own(&self, silo: &str) -> Result<(), StoreError> {
        match fault::last(&self.data, silo) {
            Some(death) => self.report(death).await.map(drop),
            None => Ok(()),
        }
    }

    /// Reports what these dead runs of silos left, by name and generation, and reads the table anew. True when
    /// there was news.
    pub(super) async fn witness(&self, dead: &[(String, i32)]) -> bool {
        let work = async {
            let mut reported = false;
            for (silo, generation) in dead {
                if let Some(death) = fault::last(&self.data, silo).filter(|it| it.generation == *generation) {
                    reported |= self.report(death).await?;
                }
            }
            self.refresh().await?;
            Ok::<_, StoreError>(reported)
        };
        match tokio::time::timeout(WITNESS_TIMEOUT, work).await {
            Ok(Ok(reported)) => reported,
            Ok(Err(error)) => {
                tracing::warn!(%error, "what dead silos left cannot be reported");
                false
            }
            Err(_) => {
                tracing::warn!("the store did not take what dead silos left within {WITNESS_TIMEOUT:?}");
                false
            }
        }
    }

    /// Reports a death; false when it was known.
    async fn report(&self, death: Death) -> Result<bool, StoreError> {
        let news = self.change(|table| table.report(death.clone(), now_s())).await?;
        if news {
            let Death { digest, silo, generation, cause, .. } = death;
            let short = digest.short();
            tracing::error!(
                silo,
                generation,
                digest = short,
                "a silo ended by {cause} in a turn of this component"
            );
            if let Some(why) = self.why(&digest) {
                tracing::error!(digest = short, "{why}");
            }
        }
        Ok(news)
    }

    /// Lets a component run again; false when it was not in quarantine.
    pub(super) async fn release(&self, digest: &Digest) -> Result<bool, StoreError> {
        self.change(|table| table.release(digest)).await
    }

    /// Changes the table in the store; `false` when `change` says that there is nothing to write.
    async fn change(&self, change: impl Fn(&mut QuarantineTable) -> bool) -> Result<bool, StoreError> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (version, mut table) = self.store.read().await?;
            if !change(&mut table) {
                self.keep(version, table);
                return Ok(false);
            }
            if let CasOutcome::Written { version } = self.store.replace(table.clone(), version).await? {
                self.keep(version, table);
                return Ok(true);
            }
        }
        Err(StoreError::Unavailable("other writers of the quarantine kept getting in between".to_owned()))
    }
}

/// What callers and operators are told.
fn text(entry: &Quarantined) -> String {
    let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(entry.since_s));
    format!(
        "component {} is in quarantine since {since}: {}; deploy another component, or let it run again with \
         `granary release TYPE`",
        entry.digest.short(),
        entry.reason
    )
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use granary_store::MemoryStore;

    use super::*;

    fn leave_fault(data: &std::path::Path, silo: &str, generation: i32, component: &[u8]) {
        std::fs::create_dir_all(data.join("silos").join(silo)).unwrap();
        let line = format!("{generation} {} SIGSEGV\n", Digest::of(component));
        std::fs::write(data.join("silos").join(silo).join("fault"), line).unwrap();
    }

    #[tokio::test]
    async fn survivors_and_a_restarted_silo_report_the_same_deaths_once() {
        let data = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let quarantine = || Quarantine::new(Arc::clone(&store) as Arc<_>, data.path().to_owned());
        let (one, two) = (quarantine(), quarantine());
        leave_fault(data.path(), "a", 1, b"bad");
        assert!(one.witness(&[("a".to_owned(), 1)]).await);
        assert!(!one.witness(&[("a".to_owned(), 2)]).await, "another run left it");
        two.report_own("a").await.unwrap();
        assert_eq!(two.why(&Digest::of(b"bad")), None, "one death");
        leave_fault(data.path(), "b", 1, b"bad");
        assert!(two.witness(&[("b".to_owned(), 1)]).await);
        let why = two.why(&Digest::of(b"bad")).unwrap();
        assert!(why.contains("silo a") && why.contains("granary release"), "{why}");
        assert_eq!(one.why(&Digest::of(b"bad")), None, "it has not read yet");
        one.refresh().await.unwrap();
        assert_eq!((one.why(&Digest::of(b"bad")), one.why(&Digest::of(b"good"))), (Some(why), None));
        assert!(one.release(&Digest::of(b"bad")).await.unwrap());
        assert!(!one.witness(&[("a".to_owned(), 1), ("b".to_owned(), 1)]).await, "nothing new");
        assert_eq!(one.why(&Digest::of(b"bad")), None, "old deaths are forgiven");
    }
}
