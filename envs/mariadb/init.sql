CREATE USER bench@'%' IDENTIFIED BY '{{secret.password}}';
GRANT ALL PRIVILEGES ON *.* TO bench@'%';
ALTER USER root@localhost IDENTIFIED BY '{{secret.password}}';
