//! Where a cluster's store is: `sqlite:PATH`, `postgres://…` or `nats://…`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A store's address, as given on the command line. Neither `Display` nor `Debug` shows a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// Files in a directory, for the silos of one host; without a path, the data directory.
    Sqlite(Option<PathBuf>),
    /// A PostgreSQL database.
    Postgres(ServerUrl),
    /// A NATS server, or servers of one cluster, with JetStream.
    Nats(ServerUrl),
}

/// The address of a server, with user, password and options.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    text: String,
    shown: String,
}

/// A text that is no address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    #[error("{scheme:?} is no kind of store: say sqlite:PATH, postgres://USER@HOST/DATABASE or nats://HOST")]
    UnknownScheme { scheme: String },
    #[error("a store is named as sqlite:PATH, postgres://USER@HOST/DATABASE or nats://HOST")]
    NoScheme,
    #[error(
        "{scheme}:// names no server: say {scheme}://HOST, with a port after a colon if it is not the usual one"
    )]
    NoServer { scheme: String },
}

impl ServerUrl {
    /// The whole address, password included: never to be shown.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.text
    }

    /// User and password as they stand in the address, still percent-encoded.
    #[must_use]
    pub fn credentials(&self) -> Option<(&str, Option<&str>)> {
        let (user_info, _) = self.authority().rsplit_once('@')?;
        Some(match user_info.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user_info, None),
        })
    }

    /// The servers, each as `HOST` or `HOST:PORT`.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let authority = self.authority();
        authority.rsplit_once('@').map_or(authority, |(_, servers)| servers).split(',')
    }

    /// The options after the question mark, still percent-encoded.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        let query = self.text.split_once('?').map_or("", |(_, query)| query);
        query.split('&').filter(|it| !it.is_empty()).map(|it| it.split_once('=').unwrap_or((it, "")))
    }

    fn authority(&self) -> &str {
        let rest = self.text.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?', '#']).next().unwrap_or_default()
    }

    fn parse(scheme: &str, text: &str) -> Result<Self, StoreUrlError> {
        let mut this = Self { text: text.to_owned(), shown: String::new() };
        let servers: Vec<&str> = this.servers().collect();
        if servers.iter().any(|server| server.is_empty() || server.starts_with(':')) {
            return Err(StoreUrlError::NoServer { scheme: scheme.to_owned() });
        }
        let user = this.credentials().map(|(user, _)| format!("{user}@")).unwrap_or_default();
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let path = rest.split_once('/').map(|(_, path)| format!("/{path}")).unwrap_or_default();
        this.shown = format!("{scheme}://{user}{}{path}", servers.join(","));
        Ok(this)
    }
}

/// Without the password.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Without the password.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({})", self.shown)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(Some(path)) => write!(f, "sqlite:{}", path.display()),
            Self::Sqlite(None) => f.write_str("sqlite"),
            Self::Postgres(url) | Self::Nats(url) => write!(f, "{url}"),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        if text == "sqlite" {
            return Ok(Self::Sqlite(None));
        }
        let (scheme, rest) = text.split_once(':').ok_or(StoreUrlError::NoScheme)?;
        match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                Ok(Self::Sqlite((!path.is_empty()).then(|| PathBuf::from(path))))
            }
            "postgres" | "postgresql" => ServerUrl::parse(scheme, text).map(Self::Postgres),
            "nats" | "tls" => ServerUrl::parse(scheme, text).map(Self::Nats),
            // What stands before a colon may be anything, a password too.
            _ if rest.starts_with("//") && scheme.len() <= 16 => {
                Err(StoreUrlError::UnknownScheme { scheme: scheme.to_owned() })
            }
            _ => Err(StoreUrlError::NoScheme),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> ServerUrl {
        match text.parse() {
            Ok(StoreUrl::Postgres(url) | StoreUrl::Nats(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        for (text, shown) in [
            ("postgres://u:secret@h:1/db?x=secret", "postgres://u@h:1/db"),
            ("postgresql://u:se:cr@et@h1,h2:2/db", "postgresql://u@h1,h2:2/db"),
            ("nats://secret-free", "nats://secret-free"),
            ("nats://u:secret@[::1]:4222?replicas=3", "nats://u@[::1]:4222"),
        ] {
            let url = server(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("ServerUrl({shown})"));
        }
    }

    #[test]
    fn the_parts_are_found() {
        let url = server("nats://u:p:w@a,b:1/?replicas=3&x");
        assert_eq!(url.credentials(), Some(("u", Some("p:w"))));
        assert_eq!(url.servers().collect::<Vec<_>>(), ["a", "b:1"]);
        assert_eq!(url.options().collect::<Vec<_>>(), [("replicas", "3"), ("x", "")]);
        assert_eq!(server("nats://token@a").credentials(), Some(("token", None)));
        assert_eq!(server("nats://a").credentials(), None);
    }

    #[test]
    fn embedded_stores_have_a_path_or_take_the_data_directory() {
        assert_eq!("sqlite:/a/b".parse(), Ok(StoreUrl::Sqlite(Some("/a/b".into()))));
        assert_eq!("sqlite:///a/b".parse(), Ok(StoreUrl::Sqlite(Some("/a/b".into()))));
        assert_eq!("sqlite".parse(), Ok(StoreUrl::Sqlite(None)));
        assert_eq!("sqlite:".parse(), Ok(StoreUrl::Sqlite(None)));
    }

    #[test]
    fn what_is_no_store_is_refused_and_not_repeated() {
        let refused = |text: &str| text.parse::<StoreUrl>().unwrap_err().to_string();
        assert!(refused("mysql://u:secret@h").starts_with("\"mysql\" is no kind of store: say sqlite:PATH"));
        assert!(refused("/var/lib").starts_with("a store is named as"));
        assert!(refused("postgres://u:secret@/db").starts_with("postgres:// names no server"));
        assert!(refused("postgres://a,/db").starts_with("postgres:// names no server"));
        assert!(refused("nats:").starts_with("nats:// names no server"));
        for text in ["mysql://u:secret@h", "secret:x", "postgres://u:secret@/db"] {
            assert!(!refused(text).contains("secret"), "{text}");
        }
    }
}
