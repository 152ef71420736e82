//! The test context's store: values in memory, with etags that change at every write.

use std::collections::BTreeMap;

use crate::state::StateError;
use crate::types::GrainRef;

/// State by grain and name, and faults to come.
#[derive(Default)]
pub(crate) struct Store {
    rows: BTreeMap<(GrainRef, String), (Vec<u8>, String)>,
    writes: u64,
    next_read: Option<StateError>,
    next_write: Option<StateError>,
}

impl Store {
    pub(crate) fn read(&self, grain: &GrainRef, name: &str) -> Option<(Vec<u8>, String)> {
        self.rows.get(&(grain.clone(), name.to_owned())).cloned()
    }

    pub(crate) fn put(&mut self, grain: &GrainRef, name: &str, value: Vec<u8>) -> String {
        self.writes += 1;
        let etag = self.writes.to_string();
        self.rows.insert((grain.clone(), name.to_owned()), (value, etag.clone()));
        etag
    }

    pub(crate) fn fail_next_read(&mut self, error: StateError) {
        self.next_read = Some(error);
    }

    pub(crate) fn fail_next_write(&mut self, error: StateError) {
        self.next_write = Some(error);
    }

    pub(super) fn try_read(
        &mut self,
        grain: &GrainRef,
        name: &str,
    ) -> Result<Option<(Vec<u8>, String)>, StateError> {
        match self.next_read.take() {
            Some(error) => Err(error),
            None => Ok(self.read(grain, name)),
        }
    }

    pub(super) fn try_write(
        &mut self,
        grain: &GrainRef,
        name: &str,
        value: &[u8],
        expected: Option<&str>,
    ) -> Result<String, StateError> {
        self.check(grain, name, expected)?;
        Ok(self.put(grain, name, value.to_vec()))
    }

    pub(super) fn try_clear(
        &mut self,
        grain: &GrainRef,
        name: &str,
        expected: Option<&str>,
    ) -> Result<(), StateError> {
        self.check(grain, name, expected)?;
        self.rows.remove(&(grain.clone(), name.to_owned()));
        Ok(())
    }

    fn check(&mut self, grain: &GrainRef, name: &str, expected: Option<&str>) -> Result<(), StateError> {
        if let Some(error) = self.next_write.take() {
            return Err(error);
        }
        let stored = self.rows.get(&(grain.clone(), name.to_owned())).map(|(_, etag)| etag.as_str());
        if stored == expected { Ok(()) } else { Err(StateError::Conflict(stored.map(str::to_owned))) }
    }
}
