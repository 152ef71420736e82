//! The store that a silo's settings name, opened.

use std::path::Path;
use std::sync::Arc;

use granary_store::sqlite::{self, OpenOptions, SqliteStore};
use granary_store::{
    ClusterId, NatsOptions, NatsStore, PostgresOptions, PostgresStore, Store, StoreError, StoreUrl,
};

use super::StartError;
use super::config::SiloConfig;
use super::home::HostIdentity;

/// Opens the store, and makes sure that the data directory can be used, which a silo has beside every store.
///
/// # Errors
/// [`StartError::Config`] for what a person has to change; [`StartError::Cluster`] when a server does not answer.
pub(super) async fn open(config: &SiloConfig, cluster: &ClusterId) -> Result<Arc<dyn Store>, StartError> {
    let files = |path: &Path| {
        SqliteStore::open(path, OpenOptions::default())
            .map(|store| Arc::new(store) as Arc<dyn Store>)
            .map_err(|error| StartError::Config(error.to_string()))
    };
    let ca_file = config.store_ca_file.clone();
    let opened: Result<Arc<dyn Store>, StoreError> = match &config.store {
        StoreUrl::Sqlite(_) if ca_file.is_some() => {
            return Err(StartError::Config(
                "--store-ca-file is for a server, and the store is in files: name the server with --store"
                    .to_owned(),
            ));
        }
        StoreUrl::Sqlite(None) => return files(&config.data),
        StoreUrl::Sqlite(Some(path)) => {
            prepare_data(&config.data)?;
            return files(path);
        }
        StoreUrl::Postgres(url) => {
            prepare_data(&config.data)?;
            let options = PostgresOptions { ca_file, ..PostgresOptions::default() };
            PostgresStore::open(url, cluster, options).await.map(|store| Arc::new(store) as _)
        }
        StoreUrl::Nats(url) => {
            prepare_data(&config.data)?;
            let options = NatsOptions { ca_file, ..NatsOptions::default() };
            NatsStore::open(url, cluster, options).await.map(|store| Arc::new(store) as _)
        }
    };
    opened.map_err(|error| match error {
        StoreError::Unusable(_) => StartError::Config(error.to_string()),
        StoreError::Unavailable(_) => StartError::Cluster(error.to_string()),
    })
}

fn prepare_data(data: &Path) -> Result<(), StartError> {
    sqlite::prepare(data, &OpenOptions::default()).map_err(|error| StartError::Config(error.to_string()))
}

/// Who proves that a silo is gone by the lock on its name (decision B7): a process of the same host that looks into the
/// same directory. A store in the data directory implies the latter; with any other store the directory is part of the
/// host's identity.
pub(super) fn host_identity(config: &SiloConfig) -> std::io::Result<HostIdentity> {
    let mut host = HostIdentity::read();
    if config.store != StoreUrl::Sqlite(None) {
        let directory = rustix::fs::stat(&config.data)?;
        host.host_id = format!("{}/{:x}-{:x}", host.host_id, directory.st_dev, directory.st_ino);
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_shared_store_only_silos_of_one_data_directory_prove_deaths_to_each_other() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = |data: &Path, store: &str| {
            let store = store.parse().unwrap();
            let config = SiloConfig { data: data.to_owned(), store, ..SiloConfig::default() };
            host_identity(&config).unwrap().host_id
        };
        let store = "postgres://somewhere";
        assert_eq!(identity(one.path(), store), identity(&one.path().join("."), store));
        assert_ne!(identity(one.path(), store), identity(other.path(), store));
        assert_ne!(identity(one.path(), store), identity(one.path(), "sqlite"));
        assert_eq!(identity(one.path(), "sqlite"), identity(other.path(), "sqlite"));
    }

    #[tokio::test]
    async fn what_a_person_has_to_change_is_told_apart_from_a_server_that_is_away() {
        let data = tempfile::tempdir().unwrap();
        let refusal = async |store: &str| {
            let config = SiloConfig {
                data: data.path().to_owned(),
                store: store.parse().unwrap(),
                ..SiloConfig::default()
            };
            open(&config, &"c".parse().unwrap()).await.err()
        };
        // Nobody listens on the port of "tcpmux".
        for store in ["postgres://u:secret@127.0.0.1:1/db", "nats://u:secret@127.0.0.1:1"] {
            let Some(StartError::Cluster(why)) = refusal(store).await else { panic!("{store}") };
            assert!(why.contains("127.0.0.1:1") && !why.contains("secret"), "{why}");
        }
        let Some(StartError::Config(why)) = refusal("nats://127.0.0.1:1?colour=blue").await else { panic!() };
        assert!(why.contains("`colour`"), "{why}");
        assert!(refusal("sqlite").await.is_none());
        let config = SiloConfig {
            data: data.path().to_owned(),
            store_ca_file: Some("ca.pem".into()),
            ..SiloConfig::default()
        };
        let error = open(&config, &"c".parse().unwrap()).await.err();
        assert!(
            matches!(&error, Some(StartError::Config(why)) if why.contains("--store-ca-file")),
            "{error:?}"
        );
    }
}
