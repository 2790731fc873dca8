//! Why a policy that is right in itself cannot be used here.

use std::fmt;

/// Why a checked policy cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileError {
    /// The key that verifies tokens is not one of its algorithm.
    JwtKey {
        /// What is wrong with it.
        reason: String,
    },
    /// An identity comes from signed tokens, and the policy has no key to verify them with.
    JwtKeyMissing {
        /// The identity.
        identity: String,
    },
    /// Tokens are to be read, and this program was built without that.
    JwtNotBuiltIn,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::JwtKey { reason } => {
                write!(f, "the key under `jwt` cannot verify tokens: {reason}")
            }
            CompileError::JwtKeyMissing { identity } => write!(
                f,
                "`{identity}` is a claim of a signed token, and there is nothing to verify it with: \
                 give a key under `jwt`, or say `trusted: true` if somebody in front verifies tokens"
            ),
            CompileError::JwtNotBuiltIn => {
                f.write_str("the policy reads tokens (`jwt`), and this program was built without them: build it with the feature `jwt`")
            }
        }
    }
}

impl std::error::Error for CompileError {}
