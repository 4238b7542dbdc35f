-- The vendor whose preset an account uses, and what its configuration overrides of the capability profile (JSON).
ALTER TABLE account ADD COLUMN vendor TEXT;
ALTER TABLE account ADD COLUMN profile TEXT;
