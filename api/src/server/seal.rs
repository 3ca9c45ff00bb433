//! Seal of cookies: texts that browsers keep, and only APIs with the same secret can read or write.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use queue::clock;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::problem::{ApiError, Kind};

/// Seals and opens texts.
pub(crate) struct Seal(LessSafeKey);

/// The content of a sealed text that has not expired.
pub(crate) struct Unsealed {
    pub(crate) content: String,
    /// End of its validity, in microseconds since the Unix epoch.
    pub(crate) expires_at: i64,
}

impl Seal {
    /// Seals with this secret. Without one, no other process opens what this one seals.
    pub(crate) fn new(secret: Option<&SecretString>) -> Self {
        let bytes = match secret {
            Some(secret) => {
                let hash = Sha256::new().chain_update("turnfold session key\0");
                hash.chain_update(secret.expose_secret()).finalize().into()
            }
            None => random::<32>(),
        };
        // **Invariant:** a key of AES-256 has 32 bytes.
        let key = UnboundKey::new(&AES_256_GCM, &bytes).expect("32 bytes are a key");
        Self(LessSafeKey::new(key))
    }

    /// Seals a content for this purpose until a time in microseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`Kind::Internal`] if the content is longer than the cipher permits.
    pub(crate) fn seal(&self, purpose: &[u8], content: &str, expires_at: i64) -> Result<String, ApiError> {
        let nonce = random::<NONCE_LEN>();
        let mut sealed = [&expires_at.to_be_bytes(), content.as_bytes()].concat();
        let once = Nonce::assume_unique_for_key(nonce);
        let done = self.0.seal_in_place_append_tag(once, Aad::from(purpose), &mut sealed);
        done.map_err(|_| Kind::Internal.because("cannot seal a cookie"))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Returns the content of a text that was sealed with this secret, for this purpose, and has not expired.
    pub(crate) fn open(&self, purpose: &[u8], text: &str) -> Option<Unsealed> {
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let (expires_at, content) =
            self.0.open_in_place(nonce, Aad::from(purpose), sealed).ok()?.split_first_chunk()?;
        let expires_at = i64::from_be_bytes(*expires_at);
        let content = std::str::from_utf8(content).ok()?.to_owned();
        (clock::now() < expires_at).then_some(Unsealed { content, expires_at })
    }
}

/// Returns random bytes.
pub(crate) fn random<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    // **Invariant:** without random bytes no key can be made either; the process cannot go on.
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}
