-- Whether the account's /responses accepts WebSocket, and whether a group's keys may speak it.
ALTER TABLE account ADD COLUMN websocket BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grp ADD COLUMN websocket BIGINT NOT NULL DEFAULT 1;
