-- Requests of one user that are booked together share an entry, charge:<this>. Null: the entry is the row's own,
-- charge:<request id>.
ALTER TABLE usage ADD COLUMN charged_with TEXT;
