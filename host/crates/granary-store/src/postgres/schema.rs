//! The cluster's schema: made once, with the version of its layout.

use tokio_postgres::Client;

use super::session::Connector;
use crate::StoreError;

/// The layout that this build reads and writes.
const LAYOUT: i32 = 1;

/// Locked while a schema is looked at and made: silos that start together make it once. ASCII of "granary".
const SCHEMA_LOCK: i64 = 0x67_72_61_6e_61_72_79;

/// The tables of layout 1. Grain keys and names of states may hold any character, which text does not.
const TABLES: &str = "
    CREATE TABLE layout (version INT4 NOT NULL);
    CREATE TABLE membership_version (
        id INT4 PRIMARY KEY CHECK (id = 0),
        version INT8 NOT NULL
    );
    INSERT INTO membership_version VALUES (0, 0);
    CREATE TABLE silos (
        address TEXT COLLATE \"C\" PRIMARY KEY,
        name TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('joining', 'active', 'shutting-down', 'dead')),
        gateway TEXT NOT NULL,
        admin TEXT NOT NULL,
        host_id TEXT NOT NULL,
        boot_id TEXT NOT NULL,
        process_id INT8 NOT NULL,
        votes TEXT NOT NULL, -- one vote a line: the voter and the number of its vote
        etag INT8 NOT NULL,
        renewal INT8 NOT NULL
    );
    CREATE TABLE state (
        grain_type TEXT COLLATE \"C\" NOT NULL,
        grain_key BYTEA NOT NULL,
        name BYTEA NOT NULL,
        revision INT8 NOT NULL,
        fence INT8 NOT NULL,
        etag TEXT,   -- null without a value
        value BYTEA,
        PRIMARY KEY (grain_type, grain_key, name)
    );
    CREATE TABLE deployments_version (
        id INT4 PRIMARY KEY CHECK (id = 0),
        version INT8 NOT NULL
    );
    INSERT INTO deployments_version VALUES (0, 0);
    CREATE TABLE deployments (
        grain_type TEXT COLLATE \"C\" PRIMARY KEY,
        digest BYTEA NOT NULL,
        bytes INT8 NOT NULL,
        name TEXT NOT NULL,
        revision INT8 NOT NULL,
        properties TEXT NOT NULL,
        deployed_at INT8 NOT NULL,
        grants TEXT NOT NULL
    );
    CREATE TABLE quarantine (
        id INT4 PRIMARY KEY CHECK (id = 0),
        version INT8 NOT NULL,
        content TEXT NOT NULL -- JSON
    );
    CREATE TABLE blobs (
        digest BYTEA PRIMARY KEY, -- there once all pieces are
        bytes INT8 NOT NULL
    );
    CREATE TABLE blob_pieces (
        digest BYTEA NOT NULL,
        number INT4 NOT NULL,
        content BYTEA NOT NULL,
        PRIMARY KEY (digest, number)
    );
    ALTER TABLE blob_pieces ALTER COLUMN content SET STORAGE EXTERNAL;
";

/// Connects, and makes the schema where it is missing; returns what is to be warned of.
pub(super) async fn open(connector: &Connector) -> Result<Vec<String>, StoreError> {
    let (session, warnings) = connector.connect_first().await?;
    let client = &session.client;
    let found = match found(client, &connector.schema).await.map_err(|err| connector.error(&err))? {
        // Without a lock: who only uses a schema needs no right to make one.
        Some(found) => found,
        None => make(client, &connector.schema).await.map_err(|err| connector.error(&err))?,
    };
    if found == LAYOUT {
        return Ok(warnings);
    }
    Err(StoreError::Unusable(format!(
        "{}: the schema {} has layout {found}, this version of granary supports {LAYOUT}",
        connector.address, connector.schema
    )))
}

/// The layout that is there.
async fn found(client: &Client, schema: &str) -> Result<Option<i32>, tokio_postgres::Error> {
    let sql = format!("SELECT to_regclass('{schema}.layout') IS NOT NULL");
    if !client.query_typed_one(&sql, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    client.query_typed_one("SELECT version FROM layout", &[]).await?.try_get(0).map(Some)
}

/// Makes the schema unless somebody was faster. A session that ends in the middle leaves nothing behind.
async fn make(client: &Client, schema: &str) -> Result<i32, tokio_postgres::Error> {
    // Not within the transaction: what a session knows of the catalogue is refreshed when one begins, and waiting for
    // a lock of this kind does not refresh it.
    client.batch_execute(&format!("SELECT pg_advisory_lock({SCHEMA_LOCK})")).await?;
    let layout = match found(client, schema).await? {
        Some(found) => found,
        None => {
            let script = format!(
                "BEGIN; CREATE SCHEMA IF NOT EXISTS {schema}; {TABLES}
                 INSERT INTO layout VALUES ({LAYOUT}); INSERT INTO quarantine VALUES (0, 0, ''); COMMIT"
            );
            client.batch_execute(&script).await?;
            LAYOUT
        }
    };
    client.batch_execute(&format!("SELECT pg_advisory_unlock({SCHEMA_LOCK})")).await?;
    Ok(layout)
}
