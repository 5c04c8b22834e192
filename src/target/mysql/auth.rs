//! Logging in: what each method of authentication answers to the server, without a socket.
//!
//! A password leaves the client as it is only on a channel that nobody can listen to, as each method allows; otherwise
//! as a hash that is good for one login, or encrypted with the server's public key.
//!
//! Must not import: anything that does I/O.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, VerifyingKey};
use rsa::pkcs8::DecodePublicKey;
use rsa::traits::PublicKeyParts;
use rsa::{Oaep, PublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::wire::mark;

/// A login that the client cannot or will not go on with.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the server wants to log in by `{0}`, which this program does not know; give the user another plugin")]
    Unknown(String),
    #[error(
        "the server wants the password as it is; encrypt the connection (--ssl-mode required), or let everybody on the \
         way read it (--enable-cleartext-plugin)"
    )]
    Clear,
    #[error("the server went on with the login in a way that `{0}` does not have")]
    Unexpected(&'static str),
    #[error("the server's public key cannot be used: {0}")]
    PublicKey(String),
    #[error(
        "the password is too long for the server's public key, which takes {longest} bytes; encrypt the connection \
         (--ssl-mode required)"
    )]
    TooLong { longest: usize },
}

/// Who may listen to what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// TCP without TLS.
    Open,
    /// A Unix socket without TLS.
    Local,
    Tls,
}

/// What a login has to show, and to whom it may show it.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    pub password: &'a str,
    pub channel: Channel,
    /// Whether mysql_clear_password may be used where somebody may listen.
    pub cleartext_allowed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plugin {
    NativePassword,
    CachingSha2,
    Sha256,
    Clear,
    Ed25519,
}

/// Names are those of the `plugin` column of mysql.user, but for MariaDB's ed25519, whose client part has its own.
const PLUGINS: [(Plugin, &str); 5] = [
    (Plugin::NativePassword, "mysql_native_password"),
    (Plugin::CachingSha2, "caching_sha2_password"),
    (Plugin::Sha256, "sha256_password"),
    (Plugin::Clear, "mysql_clear_password"),
    (Plugin::Ed25519, "client_ed25519"),
];

/// caching_sha2_password's own messages
/// (dev:page_caching_sha2_authentication_exchanges.html).
const FAST_LOGIN_IS_ENOUGH: &[u8] = &[3];
const FULL_LOGIN_IS_NEEDED: &[u8] = &[4];
const PUBLIC_KEY_PLEASE: u8 = 2;

/// One attempt by one method.
pub struct Exchange<'a> {
    plugin: Plugin,
    nonce: Vec<u8>,
    credentials: Credentials<'a>,
}

impl<'a> Exchange<'a> {
    /// The method that the server names, with the nonce it sent along.
    pub fn new(plugin: &str, nonce: &[u8], credentials: Credentials<'a>) -> Result<Exchange<'a>, AuthError> {
        let known = PLUGINS.iter().find(|(_, name)| *name == plugin);
        let plugin = known.ok_or_else(|| AuthError::Unknown(plugin.to_string()))?.0;
        Ok(Exchange { plugin, nonce: nonce.to_vec(), credentials })
    }

    /// The method to begin with where the server names one that the client does not know, or none; a server that wants
    /// another one then says so.
    pub fn first(plugin: &str, nonce: &[u8], credentials: Credentials<'a>) -> Exchange<'a> {
        // A password is not shown to a server that has not asked for it with regard to this user. MySQL's client begins
        // with a hash whatever the greeting says.
        let plugin = match plugin {
            "mysql_clear_password" | "sha256_password" => "mysql_native_password",
            plugin => plugin,
        };
        Exchange::new(plugin, nonce, credentials).unwrap_or_else(|_| Exchange {
            plugin: Plugin::NativePassword,
            nonce: nonce.to_vec(),
            credentials,
        })
    }

    pub fn name(&self) -> &'static str {
        // Each plugin has its line in the table.
        PLUGINS.iter().find(|(plugin, _)| *plugin == self.plugin).map_or("", |(_, name)| name)
    }

    /// The client's first message.
    pub fn answer(&self) -> Result<Vec<u8>, AuthError> {
        let Credentials { password, channel, cleartext_allowed } = self.credentials;
        let password = password.as_bytes();
        match self.plugin {
            Plugin::Clear if channel == Channel::Open && !cleartext_allowed => Err(AuthError::Clear),
            Plugin::Clear => Ok(self.with_zero()),
            Plugin::Ed25519 => Ok(ed25519(password, &self.nonce)),
            // An empty password is an empty answer, except that sha256_password ends it with its zero.
            Plugin::Sha256 if password.is_empty() => Ok(vec![0]),
            _ if password.is_empty() => Ok(Vec::new()),
            Plugin::NativePassword => Ok(native(password, self.challenge()).to_vec()),
            Plugin::CachingSha2 => Ok(caching_sha2(password, self.challenge()).to_vec()),
            // The server takes no socket for safe here (dev:page_protocol_connection_phase_authentication_methods.html).
            Plugin::Sha256 if channel == Channel::Tls => Ok(self.with_zero()),
            Plugin::Sha256 => Ok(vec![mark::AUTH_MORE]),
        }
    }

    /// The answer to more data of the server; `None` where it only waits for the server's verdict.
    pub fn go_on(&self, data: &[u8]) -> Result<Option<Vec<u8>>, AuthError> {
        match (self.plugin, data) {
            (Plugin::CachingSha2, FAST_LOGIN_IS_ENOUGH) => Ok(None),
            (Plugin::CachingSha2, FULL_LOGIN_IS_NEEDED) => Ok(Some(match self.credentials.channel {
                Channel::Open => vec![PUBLIC_KEY_PLEASE],
                Channel::Local | Channel::Tls => self.with_zero(),
            })),
            (Plugin::CachingSha2 | Plugin::Sha256, key) if key.starts_with(b"-----BEGIN") => {
                self.encrypted(key).map(Some)
            }
            _ => Err(AuthError::Unexpected(self.name())),
        }
    }

    /// The nonce of a scramble has 20 bytes; in an AuthSwitchRequest a zero follows that does not belong to it.
    fn challenge(&self) -> &[u8] {
        &self.nonce[..self.nonce.len().min(20)]
    }

    fn with_zero(&self) -> Vec<u8> {
        [self.credentials.password.as_bytes(), &[0]].concat()
    }

    /// The password, mixed with the nonce and encrypted for the server
    /// (dev:page_caching_sha2_authentication_exchanges.html).
    fn encrypted(&self, key: &[u8]) -> Result<Vec<u8>, AuthError> {
        let unusable = |error: &dyn std::fmt::Display| AuthError::PublicKey(error.to_string());
        let key = str::from_utf8(key).map_err(|error| unusable(&error))?;
        let key = PublicKey::from_public_key_pem(key).map_err(|error| unusable(&error))?;
        let mut text = self.with_zero();
        // OAEP takes two hashes and two bytes of what RSA encrypts (RFC 8017, 7.1.1), and one byte is the zero.
        let longest = key.size().saturating_sub(2 * Sha1::output_size() + 3);
        if self.credentials.password.len() > longest {
            return Err(AuthError::TooLong { longest });
        }
        for (byte, nonce) in text.iter_mut().zip(self.challenge().iter().cycle()) {
            *byte ^= nonce;
        }
        key.encrypt(&mut rand::rng(), Oaep::<Sha1>::new(), &text).map_err(|error| unusable(&error))
    }
}

/// SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))
/// (dev:page_protocol_connection_phase_authentication_methods_native_password_authentication.html).
fn native(password: &[u8], nonce: &[u8]) -> [u8; 20] {
    let mut once: [u8; 20] = Sha1::digest(password).into();
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    xor(&mut once, &mask);
    once
}

/// SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)
/// (dev:page_caching_sha2_authentication_exchanges.html).
fn caching_sha2(password: &[u8], nonce: &[u8]) -> [u8; 32] {
    let mut once: [u8; 32] = Sha256::digest(password).into();
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    xor(&mut once, &mask);
    once
}

fn xor(bytes: &mut [u8], mask: &[u8]) {
    bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// Signs the nonce with Ed25519, where the key is SHA512 of a password of any length in place of that of a seed
/// (kb:connection, kb:authentication-plugin-ed25519).
fn ed25519(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let secret = ExpandedSecretKey::from_bytes(&Sha512::digest(password).into());
    let signature: Signature = raw_sign::<Sha512>(&secret, nonce, &VerifyingKey::from(&secret));
    signature.to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rsa::PrivateKey;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};

    use super::*;

    const NONCE: &[u8] = b"0123456789abcdefghij\0";

    fn secret(channel: Channel) -> Credentials<'static> {
        Credentials { password: "secret", channel, cleartext_allowed: false }
    }

    fn exchange(plugin: &str, channel: Channel) -> Exchange<'static> {
        Exchange::new(plugin, NONCE, secret(channel)).unwrap()
    }

    /// What a server does with what it keeps of a password: it undoes the mask and hashes what comes out once more.
    #[test]
    fn a_server_that_keeps_two_hashes_recognises_the_password() {
        let kept = Sha1::digest(Sha1::digest(b"secret"));
        let mut answer = exchange("mysql_native_password", Channel::Open).answer().unwrap();
        xor(&mut answer, &Sha1::digest([&NONCE[..20], &kept[..]].concat()));
        assert_eq!(Sha1::digest(&answer), kept);

        let kept = Sha256::digest(Sha256::digest(b"secret"));
        let mut answer = exchange("caching_sha2_password", Channel::Open).answer().unwrap();
        xor(&mut answer, &Sha256::digest([&kept[..], &NONCE[..20]].concat()));
        assert_eq!(Sha256::digest(&answer), kept);
    }

    #[test]
    fn an_ed25519_signature_holds_against_the_key_that_mariadb_keeps() {
        // SELECT ed25519_password('secret'), from kb:authentication-plugin-ed25519.
        let kept = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        use base64::Engine;
        let kept = base64::engine::general_purpose::STANDARD_NO_PAD.decode(kept).unwrap();
        let key = VerifyingKey::from_bytes(&kept.try_into().unwrap()).unwrap();
        let nonce = [7; 32];
        let answer = Exchange::new("client_ed25519", &nonce, secret(Channel::Open)).unwrap().answer().unwrap();
        key.verify_strict(&nonce, &Signature::from_slice(&answer).unwrap()).unwrap();
    }

    #[test]
    fn a_password_in_clear_goes_only_where_nobody_listens() {
        let clear = b"secret\0";
        for (plugin, open, local) in
            [("mysql_clear_password", None, Some(&clear[..])), ("sha256_password", Some(&[1][..]), Some(&[1][..]))]
        {
            let answer = |channel| exchange(plugin, channel).answer().ok();
            assert_eq!(answer(Channel::Open).as_deref(), open, "{plugin}");
            assert_eq!(answer(Channel::Local).as_deref(), local, "{plugin}");
            assert_eq!(answer(Channel::Tls).as_deref(), Some(&clear[..]), "{plugin}");
        }
        let full = |channel| exchange("caching_sha2_password", channel).go_on(&[4]).unwrap().unwrap();
        assert_eq!(full(Channel::Open), [2]);
        assert_eq!(full(Channel::Local), clear);
        assert_eq!(full(Channel::Tls), clear);
        let allowed = Credentials { cleartext_allowed: true, ..secret(Channel::Open) };
        assert_eq!(Exchange::new("mysql_clear_password", NONCE, allowed).unwrap().answer().unwrap(), clear);
        // Nor to a server that names the method before it knows the user, even over TLS.
        for plugin in PLUGINS.map(|(_, name)| name) {
            let first = Exchange::first(plugin, NONCE, secret(Channel::Tls));
            assert!(!first.answer().unwrap().starts_with(b"secret"), "{plugin}");
        }
    }

    #[test]
    fn the_owner_of_the_key_finds_the_password_mixed_with_the_nonce() {
        let private = PrivateKey::new(&mut rand::rng(), 1024).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        for plugin in ["caching_sha2_password", "sha256_password"] {
            let long = Credentials { password: "a long password, longer than the nonce", ..secret(Channel::Open) };
            let sent = Exchange::new(plugin, NONCE, long).unwrap().go_on(pem.as_bytes()).unwrap().unwrap();
            assert_eq!(sent.len(), private.size());
            let mut text = private.decrypt(Oaep::<Sha1>::new(), &sent).unwrap();
            text.iter_mut().zip(NONCE[..20].iter().cycle()).for_each(|(byte, nonce)| *byte ^= nonce);
            assert_eq!(text, b"a long password, longer than the nonce\0");
        }
    }

    #[test]
    fn a_password_that_is_too_long_for_a_key_is_told_apart_from_a_key_that_is_wrong() {
        let private = PrivateKey::new(&mut rand::rng(), 1024).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        let sent = |length: usize| {
            let password = "x".repeat(length);
            let long = Credentials { password: &password, ..secret(Channel::Open) };
            Exchange::new("caching_sha2_password", NONCE, long).unwrap().go_on(pem.as_bytes())
        };
        assert!(sent(85).is_ok());
        let error = sent(86).unwrap_err();
        assert!(matches!(error, AuthError::TooLong { longest: 85 }), "{error}");
        assert!(error.to_string().contains("--ssl-mode required"), "{error}");
    }

    #[test]
    fn an_unknown_method_is_named_and_begun_with_another() {
        let error = Exchange::new("parsec", NONCE, secret(Channel::Open)).err().unwrap();
        assert!(error.to_string().contains("`parsec`"), "{error}");
        assert_eq!(Exchange::first("parsec", NONCE, secret(Channel::Open)).name(), "mysql_native_password");
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_server_make_a_login_panic_or_show_the_password(
            nonce in proptest::collection::vec(any::<u8>(), 0..40),
            data in proptest::collection::vec(any::<u8>(), 0..40),
            pem: bool,
            plugin in 0..PLUGINS.len(),
        ) {
            let data = if pem { [b"-----BEGIN ", &data[..]].concat() } else { data };
            let exchange = Exchange::new(PLUGINS[plugin].1, &nonce, secret(Channel::Open)).unwrap();
            for sent in [exchange.answer().ok(), exchange.go_on(&data).ok().flatten()].into_iter().flatten() {
                prop_assert!(!sent.windows(6).any(|part| part == b"secret"));
            }
        }
    }
}
