//! What a server may say before the login is done: no bytes make its parsers panic or take much memory, and a password
//! is not sent as it is over a channel where others may listen.
//!
//! Input: a byte of settings, then a payload.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use oltpbench::target::mysql::auth::{Channel, Credentials, Exchange};
use oltpbench::target::mysql::wire::{self, Greeting};

const PASSWORD: &str = "correct horse battery staple";
const PLUGINS: [&str; 5] =
    ["mysql_native_password", "caching_sha2_password", "sha256_password", "mysql_clear_password", "client_ed25519"];

fn shows_password(answer: &[u8]) -> bool {
    answer.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes())
}

fn parse(settings: u8, payload: &[u8]) {
    let credentials = Credentials { password: PASSWORD, channel: Channel::Open, cleartext_allowed: false };
    let check = |exchange: &Exchange<'_>, more: &[u8]| {
        if let Ok(answer) = exchange.answer() {
            assert!(!shows_password(&answer));
        }
        if let Ok(Some(answer)) = exchange.go_on(more) {
            assert!(!shows_password(&answer));
        }
    };
    if let Ok(greeting) = Greeting::parse(payload) {
        check(&Exchange::first(&greeting.plugin, &greeting.nonce, credentials), payload);
    }
    if let Ok((plugin, nonce)) = wire::auth_switch(payload)
        && let Ok(exchange) = Exchange::new(plugin, nonce, credentials)
    {
        check(&exchange, payload);
    }
    let plugin = PLUGINS[usize::from(settings) % PLUGINS.len()];
    if let Ok(exchange) = Exchange::new(plugin, b"01234567890123456789", credentials) {
        check(&exchange, payload);
    }
    let _ = wire::server_error(payload, settings & 128 != 0);
}

fuzz_target!(|input: &[u8]| {
    let [settings, payload @ ..] = input else { return };
    let ((), held) = memory::most_held(|| parse(*settings, payload));
    // The arithmetic of RSA has a fixed part that a key of some length needs.
    assert!(held <= 64 * payload.len() + (64 << 10), "{held} bytes for {}", payload.len());
});
