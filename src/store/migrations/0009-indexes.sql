-- A new link ends the earlier ones for its address, and a sweep those that have expired.
CREATE INDEX one_time_link_email ON one_time_link (email, purpose);
CREATE INDEX one_time_link_expires ON one_time_link (expires_at_ms);

-- Lists are paged newest first: the log of one action, the subscriptions to one plan.
CREATE INDEX audit_action ON audit (action, seq);
CREATE INDEX subscription_plan_at ON subscription (plan_id, created_at_ms, id);
