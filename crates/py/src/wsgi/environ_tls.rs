//! The items of an environ that describe a TLS session, named as those of Apache's mod_ssl.

use net::TlsDetails;

/// The names and values of a session's items, besides HTTPS, which is constant.
pub(super) fn tls_items(details: &TlsDetails) -> Vec<(String, String)> {
    let mut items = vec![
        ("SSL_PROTOCOL".to_owned(), details.version_name().to_owned()),
        ("SSL_CIPHER".to_owned(), details.cipher_name().to_owned()),
    ];
    let mut add = |key: &str, value: String| items.push((key.to_owned(), value));
    if let Some(name) = &details.server_name {
        add("SSL_TLS_SNI", name.clone());
    }
    let Some(client) = details.client() else {
        add("SSL_CLIENT_VERIFY", "NONE".to_owned());
        return items;
    };
    add("SSL_CLIENT_VERIFY", "SUCCESS".to_owned());
    add("SSL_CLIENT_S_DN", latin1(&client.subject()));
    add("SSL_CLIENT_I_DN", latin1(&client.issuer()));
    add("SSL_CLIENT_M_SERIAL", client.serial());
    if let Some(name) = client.common_name() {
        add("SSL_CLIENT_S_DN_CN", latin1(&name));
    }
    for (index, pem) in details.client_pems().enumerate() {
        match index.checked_sub(1) {
            None => add("SSL_CLIENT_CERT", pem),
            Some(index) => add(&format!("SSL_CLIENT_CERT_CHAIN_{index}"), pem),
        }
    }
    items
}

/// Text as PEP 3333 requires it: each byte of its UTF-8 is one character.
fn latin1(text: &str) -> String {
    text.bytes().map(char::from).collect()
}
