//! What workers count, as the supervisor reads it.

use net::{Numbers, Ranking};
use pyo3::prelude::*;
use server::metrics::{BUSY_SINCE_MS, FAMILIES, Kind};

/// The numbers of one worker: created before it is forked, and used again when it has ended.
#[pyclass(module = "bolide._core", frozen)]
pub(crate) struct Counts {
    pub(crate) numbers: Numbers,
    pub(crate) ranking: Ranking,
}

#[pymethods]
impl Counts {
    #[new]
    fn new() -> PyResult<Counts> {
        Ok(Counts {
            numbers: Numbers::new()?,
            ranking: Ranking::new()?,
        })
    }

    /// The numbers as they are now, as many as the families of `metrics()` have.
    fn read(&self) -> Vec<u64> {
        let mut numbers = self.numbers.read();
        numbers.truncate(FAMILIES.iter().map(server::metrics::Family::count).sum());
        numbers
    }

    /// Since when the worker has not looked for events, in milliseconds of the monotonic clock; 0 while it waits for them.
    #[getter]
    fn busy_since_ms(&self) -> u64 {
        let numbers = self.numbers.read();
        numbers.get(BUSY_SINCE_MS).copied().unwrap_or_default()
    }

    /// Routes with slow requests: method and path pattern, how many, the seconds that they took together, and since when both are counted, in
    /// milliseconds of the monotonic clock.
    fn slow_routes(&self) -> Vec<(String, u64, f64, u64)> {
        let ranked = self.ranking.read().into_iter();
        let text = |title: &[u8]| String::from_utf8_lossy(title).into_owned();
        let seconds = |total_ns| total_ns as f64 / 1e9;
        ranked
            .map(|it| (text(&it.title), it.count, seconds(it.total_ns), it.since_ms))
            .collect()
    }

    /// Sets all to zero, after the worker has ended.
    fn clear(&self) {
        self.numbers.clear();
        self.ranking.clear();
    }
}

/// A family: name, kind, unit, help, labels with their values, bounds of a histogram.
type Described = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Vec<(&'static str, Vec<&'static str>)>,
    Vec<f64>,
);

/// Every family of numbers that a worker counts, in the order of its numbers.
#[pyfunction]
pub(crate) fn metrics() -> Vec<Described> {
    FAMILIES
        .iter()
        .map(|family| {
            let (kind, bounds) = match family.kind {
                Kind::Counter => ("counter", Vec::new()),
                Kind::Gauge => ("gauge", Vec::new()),
                Kind::Histogram(bounds) => ("histogram", bounds.to_vec()),
            };
            let labels = family.labels.iter();
            let labels = labels.map(|(name, values)| (*name, values.to_vec()));
            (
                family.name,
                kind,
                family.unit,
                family.help,
                labels.collect(),
                bounds,
            )
        })
        .collect()
}
