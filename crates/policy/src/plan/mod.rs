//! A policy compiled: which rules meet a request, with which key, quota and cost.
