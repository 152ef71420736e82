//! What a silo is started with, checked before anything is touched.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use granary_store::StoreUrl;
use granary_tls::{EdgeFiles, LinkFiles};

/// The ports that a first silo takes when nothing is said; a second one on the host takes the next ten, and so on.
const DEFAULT_PORTS: Ports = Ports { gateway: 11_110, listen: 11_111, admin: 11_112 };

/// How many silos can be started on one host without naming ports.
const DEFAULT_PORT_SETS: u16 = 10;

struct Ports {
    gateway: u16,
    listen: u16,
    admin: u16,
}

/// Settings of one silo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiloConfig {
    /// Unique in the cluster; `None`: the first of `silo-1`, `silo-2`, … that is free in the data directory.
    pub name: Option<String>,
    /// The silo's data directory. Silos with the same one form a cluster, unless `store` names another store.
    pub data: PathBuf,
    /// Where the cluster's store is. Silos with the same store and cluster id form a cluster.
    pub store: StoreUrl,
    /// The CA that the store's server is checked against.
    pub store_ca_file: Option<PathBuf>,
    /// The cluster's id; silos of other clusters are refused.
    pub cluster: String,
    /// Where other silos connect; port 0 takes any free one.
    pub listen: Option<SocketAddr>,
    /// Where programs call grains.
    pub gateway: Option<SocketAddr>,
    /// Where operators and the command line connect.
    pub admin: Option<SocketAddr>,
    /// The file with the token that the admin API asks for.
    pub admin_token_file: Option<PathBuf>,
    /// Mutual TLS for silo links; all silos of a cluster have it, or none.
    pub link_tls: Option<LinkFiles>,
    /// HTTPS at the gateway and the admin port.
    pub http_tls: Option<EdgeFiles>,
    /// The CAs that grains trust when they send `https` requests; `None`: they send none.
    pub outgoing_ca_file: Option<PathBuf>,
    /// Listen beyond loopback although silo links, or the admin API, are not protected.
    pub insecure: bool,
    /// Written, as JSON, when the silo is ready.
    pub ready_file: Option<PathBuf>,
    /// How long a stop may take; below the 30 s that supervisors give.
    pub drain_deadline: Duration,
}

impl Default for SiloConfig {
    fn default() -> Self {
        Self {
            name: None,
            data: PathBuf::from(".granary"),
            store: StoreUrl::Sqlite(None),
            store_ca_file: None,
            cluster: "default".to_owned(),
            listen: None,
            gateway: None,
            admin: None,
            admin_token_file: None,
            link_tls: None,
            http_tls: None,
            outgoing_ca_file: None,
            insecure: false,
            ready_file: None,
            drain_deadline: Duration::from_secs(25),
        }
    }
}

/// Why a silo cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "cannot listen on {address} ({flag}): {reason}; name another address, or port 0 for any free port"
    )]
    Bind { flag: &'static str, address: SocketAddr, reason: String },
    #[error(
        "the ports of {DEFAULT_PORT_SETS} silos are all in use: name them with --listen, --gateway and --admin (port 0 takes any free one)"
    )]
    DefaultsInUse,
    #[error(
        "--listen {address} is not a loopback address, and silo links are not protected: give them TLS with --tls-cert, --tls-key and --tls-ca (`granary tls init` makes them), use 127.0.0.1, or say --insecure if the network is trusted"
    )]
    LinksExposed { address: SocketAddr },
    #[error(
        "--admin {address} is not a loopback address, and the admin API has no credential: give it one with --admin-token-file FILE, use 127.0.0.1, or say --insecure if the network is trusted"
    )]
    AdminExposed { address: SocketAddr },
    #[error("{flag} {address} names no address that others could connect to: name the one of the interface")]
    Unspecified { flag: &'static str, address: SocketAddr },
}

/// The three listeners, bound.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) listen: std::net::TcpListener,
    pub(crate) gateway: std::net::TcpListener,
    pub(crate) admin: std::net::TcpListener,
}

impl SiloConfig {
    /// Binds what the settings say, or the first free set of the default ports.
    pub(crate) fn bind(&self) -> Result<Listeners, ListenError> {
        self.check_exposure()?;
        let mut last = Err(ListenError::DefaultsInUse);
        for set in 0..DEFAULT_PORT_SETS {
            let or_default = |address: Option<SocketAddr>, port: u16| {
                let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port + set * 10);
                address.unwrap_or(default)
            };
            let bound = (|| {
                Ok(Listeners {
                    listen: bind("--listen", or_default(self.listen, DEFAULT_PORTS.listen))?,
                    gateway: bind("--gateway", or_default(self.gateway, DEFAULT_PORTS.gateway))?,
                    admin: bind("--admin", or_default(self.admin, DEFAULT_PORTS.admin))?,
                })
            })();
            match bound {
                Ok(listeners) => return Ok(listeners),
                // An address that was asked for is not replaced by another one.
                Err(ListenError::Bind { flag, address, reason }) if self.named(flag) => {
                    return Err(ListenError::Bind { flag, address, reason });
                }
                Err(error) => last = Err(error),
            }
        }
        match last {
            Err(ListenError::Bind { .. }) => Err(ListenError::DefaultsInUse),
            other => other,
        }
    }

    /// The addresses that a silo with these settings would take now: bound, looked at, and given back.
    ///
    /// # Errors
    /// [`ListenError`]: why it could not listen.
    pub fn free_addresses(&self) -> Result<[SocketAddr; 3], ListenError> {
        let bound = self.bind()?;
        let address = |flag, listener: &std::net::TcpListener| {
            listener.local_addr().map_err(|error| ListenError::Bind {
                flag,
                address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
                reason: error.to_string(),
            })
        };
        Ok([
            address("--listen", &bound.listen)?,
            address("--gateway", &bound.gateway)?,
            address("--admin", &bound.admin)?,
        ])
    }

    fn named(&self, flag: &str) -> bool {
        match flag {
            "--listen" => self.listen.is_some(),
            "--gateway" => self.gateway.is_some(),
            _ => self.admin.is_some(),
        }
    }

    /// Decision C7: beyond loopback only with protection, or when told so.
    fn check_exposure(&self) -> Result<(), ListenError> {
        if let Some(address) = self.listen
            && address.ip().is_unspecified()
        {
            return Err(ListenError::Unspecified { flag: "--listen", address });
        }
        let exposed = |address: Option<SocketAddr>| {
            address.filter(|address| !address.ip().is_loopback() && !self.insecure)
        };
        if self.link_tls.is_none()
            && let Some(address) = exposed(self.listen)
        {
            return Err(ListenError::LinksExposed { address });
        }
        if self.admin_token_file.is_none()
            && let Some(address) = exposed(self.admin)
        {
            return Err(ListenError::AdminExposed { address });
        }
        Ok(())
    }
}

fn bind(flag: &'static str, address: SocketAddr) -> Result<std::net::TcpListener, ListenError> {
    let listener = std::net::TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::AddrInUse => "the port is in use".to_owned(),
            _ => error.to_string(),
        };
        ListenError::Bind { flag, address, reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> Option<SocketAddr> {
        Some("127.0.0.1:0".parse().unwrap())
    }

    #[test]
    fn a_port_in_use_is_named_with_its_flag() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = SiloConfig {
            listen: loopback(),
            gateway: taken.local_addr().ok(),
            admin: loopback(),
            ..SiloConfig::default()
        };
        let error = config.bind().unwrap_err().to_string();
        assert!(error.contains("--gateway") && error.contains("in use"), "{error}");
    }

    #[test]
    fn unnamed_ports_of_a_second_silo_do_not_collide() {
        let config = SiloConfig::default();
        let first = config.bind().unwrap();
        let second = config.bind().unwrap();
        assert_ne!(first.admin.local_addr().unwrap(), second.admin.local_addr().unwrap());
    }

    #[test]
    fn exposure_must_be_asked_for() {
        let everywhere = Some("0.0.0.0:0".parse().unwrap());
        let mut config = SiloConfig { admin: everywhere, ..SiloConfig::default() };
        let refused = config.bind().unwrap_err().to_string();
        assert!(
            refused.contains("--admin 0.0.0.0:0") && refused.contains("--admin-token-file FILE"),
            "{refused}"
        );
        config.admin_token_file = Some(PathBuf::from("token"));
        assert!(config.check_exposure().is_ok());
        config.listen = Some("192.0.2.1:0".parse().unwrap());
        assert!(matches!(config.bind(), Err(ListenError::LinksExposed { .. })), "a token protects no link");
        let (cert, key, ca) = (PathBuf::from("cert"), PathBuf::from("key"), PathBuf::from("ca"));
        config.link_tls = Some(LinkFiles { cert, key, ca });
        assert!(config.check_exposure().is_ok(), "TLS protects links");
        config.admin_token_file = None;
        config.link_tls = None;
        config.insecure = true;
        assert!(config.check_exposure().is_ok());
        config.listen = everywhere;
        assert!(matches!(config.bind(), Err(ListenError::Unspecified { .. })));
    }
}
