//! The local grain directory: one partition for each silo, rebuilt at each view from the live activations.

/// What the directories of two silos say to each other.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum DirectoryMessage {}
