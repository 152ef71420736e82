//! What a deploy grants: the flags, and how they travel to the silo, which checks them.

use std::process::Command;

use clap::Args;
use granary_wasm::grants::HttpGrant;

use super::client::escape;

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// Give the grain a value of the environment: NAME=VALUE, or NAME to take the value from the environment of this
    /// command. It sees nothing else of any environment.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = env)]
    env: Vec<EnvValue>,
    /// Let the grain send HTTP requests to this host: HOST or HOST:PORT, no wildcards.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host)]
    allow_http: Vec<String>,
    /// Let granted names stand for private and loopback addresses too.
    #[arg(long, requires = "allow_http")]
    allow_http_private: bool,
}

/// A value of the environment, which may be a secret.
#[derive(Clone)]
pub(crate) struct EnvValue {
    name: String,
    value: String,
}

impl std::fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

fn env(text: &str) -> Result<EnvValue, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(EnvValue { name: name.to_owned(), value: value.to_owned() })
        }
        None if !text.is_empty() => match std::env::var(text) {
            Ok(value) => Ok(EnvValue { name: text.to_owned(), value }),
            Err(error) => Err(format!("the environment of this command has no such value: {error}")),
        },
        _ => Err("a value of the environment is NAME=VALUE, such as LOG_LEVEL=debug".to_owned()),
    }
}

fn host(text: &str) -> Result<String, String> {
    text.parse::<HttpGrant>().map(|grant| grant.to_string()).map_err(|error| error.to_string())
}

impl GrantArgs {
    /// Adds the hosts to the query of a deploy.
    pub(crate) fn add_to(&self, path: &mut String) {
        for host in &self.allow_http {
            path.push_str("&allow-http=");
            path.push_str(&escape(host));
        }
        if self.allow_http_private {
            path.push_str("&allow-http-private=true");
        }
    }

    /// The environment as a deploy's header has it; empty for none.
    pub(crate) fn env(&self) -> String {
        let values = self.env.iter().map(|it| format!("{}={}", escape(&it.name), escape(&it.value)));
        values.collect::<Vec<_>>().join("&")
    }

    /// Passes the flags on to another process of this program.
    pub(crate) fn pass_on(&self, command: &mut Command) {
        for EnvValue { name, value } in &self.env {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        for host in &self.allow_http {
            command.args(["--allow-http", host]);
        }
        if self.allow_http_private {
            command.arg("--allow-http-private");
        }
    }
}
