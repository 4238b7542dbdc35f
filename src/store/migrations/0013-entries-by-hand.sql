-- What was not charged for requests is little beside what was. A refund asks what went back before, and the audit asks
-- for all of one kind; charges, of which every request may have one, are found by their ids and do not pay for it.
CREATE INDEX entry_by_hand ON entry (kind, request_id) WHERE kind <> 'charge';
