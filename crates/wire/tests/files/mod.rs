//! Reads the files of `vectors/`.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// All files in these folders of `vectors/`, in the order of their paths.
pub(crate) fn read<F: DeserializeOwned>(folders: &[&str]) -> Vec<F> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let entries = folders
        .iter()
        .flat_map(|folder| vectors.join(folder).read_dir().expect("a folder"));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a readable file");
        toml::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    };
    paths.iter().map(read).collect()
}
