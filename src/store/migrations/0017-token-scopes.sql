-- Tokens have the scope read, keys or admin. A token with the former scope full may only read from now on: whether its
-- owner meant keys or admin is unknown, and the owner can create a new token with the right scope.
UPDATE access_token SET scope = 'read' WHERE scope = 'full';
