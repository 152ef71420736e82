//! Who may use the admin edge: a bearer token, held and compared as its SHA-256 digest.
//!
//! The token itself is dropped once it is read: it is neither logged nor printed. Since only digests are compared,
//! the time of a comparison tells nothing about the token.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

/// The shortest token in bytes, after trimming.
pub const TOKEN_BYTES_MIN: usize = 16;

/// The longest token in bytes, after trimming.
pub const TOKEN_BYTES_MAX: usize = 512;

/// What is read of a token file at most; white space around the token included.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// The credential of the admin edge.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken {
    digest: [u8; 32],
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token file {path} cannot be read: {reason}")]
    Unreadable { path: PathBuf, reason: String },
    #[error("the token file {path} has mode {mode:03o}, others could read it: chmod 600 {path}")]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "the token in {path} has {bytes} bytes, {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} are right, such as those of `openssl rand -hex 32`"
    )]
    Length { path: PathBuf, bytes: usize },
    #[error(
        "the token in {path} is not printable ASCII without spaces, such as that of `openssl rand -hex 32`"
    )]
    Characters { path: PathBuf },
}

impl AdminToken {
    /// Takes a token as it is.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self { digest: Sha256::digest(token.as_bytes()).into() }
    }

    /// Reads a token file that only its owner can read.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let unreadable = |reason: String| TokenError::Unreadable { path: path.to_owned(), reason };
        // One descriptor for the rights and the content, so that both are of the same file.
        let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let meta = file.metadata().map_err(|error| unreadable(error.to_string()))?;
        if !meta.is_file() {
            return Err(unreadable("it is not a regular file".to_owned()));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(TokenError::Exposed { path: path.to_owned(), mode: meta.mode() & 0o777 });
        }
        let mut bytes = Vec::new();
        file.take(TOKEN_FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(error.to_string()))?;
        let token = bytes.trim_ascii();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len()) {
            return Err(TokenError::Length { path: path.to_owned(), bytes: token.len() });
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::Characters { path: path.to_owned() });
        }
        Ok(Self { digest: Sha256::digest(token).into() })
    }

    /// Lets a request pass that brings this token.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let given = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
        });
        let detail = match given {
            Some(token) if <[u8; 32]>::from(Sha256::digest(token)) == self.digest => return Ok(()),
            Some(_) => "the token is not this silo's: see --token-file and GRANARY_TOKEN_FILE",
            None => {
                "the admin API wants a token, as `Authorization: Bearer TOKEN`: see --token-file and GRANARY_TOKEN_FILE"
            }
        };
        Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(mode: u32, text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    fn refused(mode: u32, text: &str) -> String {
        let (_folder, path) = file(mode, text);
        AdminToken::read(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_token_is_trimmed() {
        let (_folder, path) = file(0o600, " 0123456789abcdef\n");
        assert_eq!(AdminToken::read(&path).unwrap(), AdminToken::new("0123456789abcdef"));
    }

    #[test]
    fn a_bad_token_file_is_refused_by_name() {
        assert!(refused(0o640, "0123456789abcdef").contains("mode 640, others could read it: chmod 600"));
        assert!(refused(0o604, "0123456789abcdef").contains("mode 604"));
        assert!(refused(0o600, "0123456789abcde\n").contains("has 15 bytes, 16 to 512"));
        assert!(refused(0o600, &"x".repeat(513)).contains("has 513 bytes"));
        assert!(refused(0o600, "0123456789 abcdef").contains("printable"));
        let missing = AdminToken::read(Path::new("/nowhere/token")).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/token cannot be read"), "{missing}");
        let folder = AdminToken::read(Path::new("/tmp")).unwrap_err().to_string();
        assert!(folder.contains("not a regular file"), "{folder}");
    }

    #[test]
    fn a_token_is_never_printed() {
        assert_eq!(format!("{:?}", AdminToken::new("0123456789abcdef")), "AdminToken(…)");
    }
}
