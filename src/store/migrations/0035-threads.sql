-- Messages that Anthropic holds in a thread: the next turn looks up their account by the id of the message.
CREATE INDEX usage_message ON usage_row (response_id) WHERE response_id IS NOT NULL AND interface = 'messages';
