"""The card on paper: what fits under a ceiling and what each way out of it costs, computed from a card profile and a
model's shape. Pure: no engine, no clock, no I/O. Everything here is modelled and every page that shows it says so."""
