//! Columns of text.

/// Rows of cells, aligned in columns.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    /// The table as text, each line indented by so many spaces.
    pub(crate) fn render(&self, indent: usize) -> String {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.0.iter().filter_map(|row| row.get(column));
                cells
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or_default()
            })
            .collect();
        let mut text = String::new();
        for row in &self.0 {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.push_str(
                    &" ".repeat(width.saturating_sub(cell.chars().count()).saturating_add(2)),
                );
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["a", "long head", "c"]);
        table.row(vec!["wide cell".to_owned(), "ü".to_owned(), "x".to_owned()]);
        assert_eq!(
            table.render(2),
            "  a          long head  c\n  wide cell  ü          x\n"
        );
    }
}
