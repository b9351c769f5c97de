"""What a user writes for settings: the types of fields, and what several parts are made of."""
