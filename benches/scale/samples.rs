//! Usage of as many containers as one likes, in the shape of real usage.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use plimsoll::usage::Rows;

/// Numbers that look random and are the same in every run.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half of 64 bits fits.
        u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % limit.max(1)
    }

    /// From a fifth to five times, as often below 1 as above.
    fn factor(&mut self) -> f64 {
        25_f64.powf(f64::from(self.next()) / f64::from(u32::MAX) - 0.5)
    }
}

/// Real series, one value after the other.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    cpu: Vec<Vec<f64>>,
    memory: Vec<Vec<f64>>,
}

/// How one container goes through the traces: which, from where on, times how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    cpu: (usize, usize, f64),
    memory: (usize, usize, f64),
}

impl Traces {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let mut traces = Self::default();
        for file in ["azure.csv.gz", "kruize.csv.zst"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/usage").join(file);
            let mut rows = Rows::packed(File::open(&path)?, file)?;
            let mut series: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
            while let Some(row) = rows.next_row()? {
                let [cpu, memory] = series.entry(row.series.to_owned()).or_default();
                cpu.extend(row.usage.cpu);
                memory.extend(row.usage.memory);
            }
            for [cpu, memory] in series.into_values() {
                traces.cpu.extend(Some(cpu).filter(|values| !values.is_empty()));
                traces.memory.extend(Some(memory).filter(|values| !values.is_empty()));
            }
        }
        anyhow::ensure!(!traces.cpu.is_empty() && !traces.memory.is_empty(), "there is no usage");
        Ok(traces)
    }

    pub(crate) fn path(&self, numbers: &mut Numbers) -> Way {
        let choose = |all: &[Vec<f64>], numbers: &mut Numbers| {
            let which = numbers.below(all.len());
            let from = numbers.below(all.get(which).map_or(0, Vec::len));
            (which, from, numbers.factor())
        };
        Way { cpu: choose(&self.cpu, numbers), memory: choose(&self.memory, numbers) }
    }

    /// CPU in cores after so many rows.
    pub(crate) fn cpu(&self, path: &Way, row: usize) -> f64 {
        value(&self.cpu, path.cpu, row)
    }

    /// Memory in bytes after so many rows.
    pub(crate) fn memory(&self, path: &Way, row: usize) -> f64 {
        value(&self.memory, path.memory, row)
    }
}

fn value(all: &[Vec<f64>], (which, from, factor): (usize, usize, f64), row: usize) -> f64 {
    let values = all.get(which).map_or(&[][..], Vec::as_slice);
    values.get((from + row) % values.len().max(1)).copied().unwrap_or(0.0) * factor
}
