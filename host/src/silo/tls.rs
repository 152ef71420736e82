//! The TLS identities of a silo: loaded before it listens, and read again when their files change.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use granary_tls::{EdgeTls, LinkTls, Reload, TlsError};
use rustls::ClientConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::config::SiloConfig;

/// How often the files are looked at. A new certificate is in force for connections made after that.
const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// What a silo shows at its ports; `None`: no TLS there.
#[derive(Debug, Clone)]
pub(crate) struct Identities {
    pub(crate) link: Option<Arc<LinkTls>>,
    pub(crate) http: Option<Arc<EdgeTls>>,
    /// Whom grains trust when they send `https` requests.
    pub(crate) outgoing: Option<Arc<ClientConfig>>,
}

impl Identities {
    /// Reads what the settings name. `listen` is where other silos connect.
    pub(crate) fn load(config: &SiloConfig, listen: IpAddr) -> Result<Self, TlsError> {
        let link = config.link_tls.clone().map(|files| LinkTls::load(files, listen)).transpose()?;
        let http = config.http_tls.clone().map(EdgeTls::load).transpose()?;
        let outgoing = config.outgoing_ca_file.as_deref().map(granary_tls::outgoing).transpose()?;
        Ok(Self { link: link.map(Arc::new), http: http.map(Arc::new), outgoing })
    }

    /// Follows changes of the files until `cancel`.
    pub(crate) fn follow(&self, tracker: &TaskTracker, cancel: &CancellationToken) {
        if let Some(link) = &self.link {
            tracker.spawn(follow("silo links", Arc::clone(link) as Arc<dyn Reload>, cancel.clone()));
        }
        if let Some(http) = &self.http {
            tracker.spawn(follow("HTTP ports", Arc::clone(http) as Arc<dyn Reload>, cancel.clone()));
        }
    }
}

async fn follow(of: &'static str, identity: Arc<dyn Reload>, cancel: CancellationToken) {
    let mut last_error = None;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(RELOAD_PERIOD) => {}
        }
        let reloading = Arc::clone(&identity);
        let Ok(reloaded) = tokio::task::spawn_blocking(move || reloading.reload()).await else { continue };
        match reloaded {
            Ok(changed) => {
                if changed {
                    tracing::info!(
                        "the TLS identity of the {of} has changed: new connections show the new one"
                    );
                }
                last_error = None;
            }
            // Files that are half written are complete at the next look; what stays wrong is said once.
            Err(error) => {
                if last_error.as_ref() != Some(&error) {
                    tracing::warn!("the TLS identity of the {of} stays as it was: {error}");
                }
                last_error = Some(error);
            }
        }
    }
}
