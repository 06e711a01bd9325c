"""Rewards, advantages, log-probabilities and losses: arrays in, arrays out."""
