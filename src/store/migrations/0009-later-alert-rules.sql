-- The rule of an alert that nodes of the version before do not know. They read `rule`, which then has one that they know.
ALTER TABLE alert ADD COLUMN later_rule TEXT;
