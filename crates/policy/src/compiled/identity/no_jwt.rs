//! Placeholders for the claims of tokens in a program without the feature `jwt`: the check refuses policies that use
//! them.

use super::unusable::Unusable;
use crate::compiled::CompileError;
use crate::model::JwtSettings;

#[derive(Debug)]
pub(crate) enum Verifier {}

pub(crate) enum Claims {}

impl Verifier {
    pub(crate) fn new(_: &JwtSettings) -> Result<Verifier, CompileError> {
        Err(CompileError::JwtKey { reason: "this program was built without the feature `jwt`".to_owned() })
    }

    pub(crate) fn verify(&self, _: &[u8], _: Option<u64>) -> Result<Claims, Unusable> {
        match *self {}
    }
}

pub(crate) fn decode_unverified(_: &[u8]) -> Result<Claims, Unusable> {
    Err(Unusable::Malformed)
}

impl Claims {
    pub(crate) fn text(&self, _: &str) -> Option<String> {
        match *self {}
    }
}
