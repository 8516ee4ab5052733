//! Declares limits and timeouts once, with default, unit and reason.

/// A number that an operator may set, as the command's option table shows it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, which ends in the unit.
    pub name: &'static str,
    /// `"limit"`, `"optional limit"` or `"timeout"`.
    pub kind: &'static str,
    /// The default value.
    pub default: u64,
    /// Bytes, a count, milliseconds, or bytes per second.
    pub unit: &'static str,
    /// What it limits, what happens to a peer that exceeds it, and why.
    pub help: &'static str,
}

/// Declares a struct of numbers together with its table of [`Setting`]s.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($field:ident: $default:literal, $unit:literal, $help:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(#[doc = $help] pub $field: u64,)*
        }

        impl $name {
            /// Every number with its default, unit and reason.
            pub const SETTINGS: &'static [Setting] = &[
                $(Setting { name: stringify!($field), kind: $kind, default: $default, unit: $unit, help: $help },)*
            ];

            /// The number with that name, to be set.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($field) => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }
    };
}

pub(crate) use settings;
